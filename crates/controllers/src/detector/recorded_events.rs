//! The Kubernetes events that the detector records. Reasons and messages are Karmada's if Karmada records the same
//! event.

use berth_events::{Event, Severity};
use berth_interpreter::{InterpretError, Operation};
use k8s_openapi::api::core::v1::ObjectReference;

use super::claim::PolicyKey;
use super::desired_binding::Interpreted;
use super::policy::{Policy, PolicyRecord};
use super::policy_findings::Finding;
use super::template::Template;

/// The name of this component in events.
pub(super) const COMPONENT: &str = "resource-detector";

/// Reports that a policy was applied to a template.
pub(super) fn applied(template: &Template, policy: &Policy) -> Event {
    template_event(
        template,
        Severity::Normal,
        "ApplyPolicySucceed",
        format!("Apply {} succeed", policy.key),
    )
}

/// Reports that a policy could not be applied to a template.
pub(super) fn apply_failed(template: &Template, policy: &Policy, error: &str) -> Event {
    template_event(
        template,
        Severity::Warning,
        "ApplyPolicyFailed",
        format!("Apply {} failed: {error}", policy.key),
    )
}

/// Reports that the replicas or components of a template were read.
pub(super) fn interpreted(template: &Template, interpreted: Interpreted) -> Event {
    let (reason, message) = match interpreted {
        Interpreted::Components => (
            "GetComponentsSucceed",
            "Get components of resource template successfully.",
        ),
        Interpreted::Replicas | Interpreted::Nothing => (
            "GetReplicasSucceed",
            "Get replicas of resource template successfully.",
        ),
    };
    template_event(template, Severity::Normal, reason, message.to_owned())
}

/// Reports that the replicas or components of a template could not be read.
pub(super) fn interpret_failed(template: &Template, error: &InterpretError) -> Event {
    let reason = match error.operation() {
        Some(Operation::InterpretComponent) => "GetComponentsFailed",
        _ => "GetReplicasFailed",
    };
    template_event(template, Severity::Warning, reason, error.to_string())
}

/// Reports that the policy `by` preempted the policy `from`.
pub(super) fn preempted(template: &Template, by: &PolicyKey, from: &PolicyKey) -> Event {
    template_event(
        template,
        Severity::Normal,
        "PreemptPolicySucceed",
        format!(
            "{} preempted {} successfully",
            by.at_sentence_start(),
            from.within_sentence()
        ),
    )
}

/// Reports that the policy `by` failed to preempt the policy `from`.
pub(super) fn preempt_failed(
    template: &Template,
    by: &PolicyKey,
    from: &PolicyKey,
    error: &str,
) -> Event {
    template_event(
        template,
        Severity::Warning,
        "PreemptPolicyFailed",
        format!(
            "{} failed to preempt {}: {error}",
            by.at_sentence_start(),
            from.within_sentence()
        ),
    )
}

/// Reports that a stored policy is invalid.
pub(super) fn invalid_policy(policy: &PolicyRecord, reason: &str) -> Event {
    policy_warning(policy, "InvalidPolicy", reason)
}

/// Reports an invalid resource selector or cluster selector of a policy.
pub(super) fn invalid_selector(policy: &PolicyRecord, problem: &str) -> Event {
    let reason = if problem.starts_with("spec.placement.") {
        "InvalidClusterAffinity"
    } else {
        "InvalidResourceSelector"
    };
    policy_warning(policy, reason, problem)
}

/// Reports that a policy selects an API that the control plane does not serve.
pub(super) fn unserved_api(policy: &PolicyRecord, problem: &str) -> Event {
    policy_warning(policy, "APINotServed", problem)
}

/// Reports a finding about a policy.
pub(super) fn finding(policy: &PolicyRecord, finding: &Finding) -> Event {
    policy_warning(policy, finding.reason(), &finding.to_string())
}

fn template_event(
    template: &Template,
    severity: Severity,
    reason: &'static str,
    message: String,
) -> Event {
    let key = &template.key;
    Event {
        object: ObjectReference {
            api_version: Some(key.api_version().to_owned()),
            kind: Some(key.kind().to_owned()),
            namespace: (!key.namespace.is_empty()).then(|| key.namespace.clone()),
            name: Some(key.name.clone()),
            uid: Some(template.uid.clone()),
            resource_version: Some(template.resource_version.clone()),
            field_path: None,
        },
        severity,
        reason,
        message,
    }
}

fn policy_warning(policy: &PolicyRecord, reason: &'static str, message: &str) -> Event {
    let key = &policy.key;
    Event {
        object: ObjectReference {
            api_version: Some("policy.karmada.io/v1alpha1".to_owned()),
            kind: Some(key.kind.name().to_owned()),
            namespace: (!key.namespace.is_empty()).then(|| key.namespace.clone()),
            name: Some(key.name.clone()),
            uid: Some(policy.uid.clone()),
            resource_version: Some(policy.resource_version.clone()),
            field_path: None,
        },
        severity: Severity::Warning,
        reason,
        message: message.to_owned(),
    }
}
