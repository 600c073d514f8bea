//! The events that tell users what the detector did: reasons and messages are Karmada's where it has them.

use berth_events::{Happening, Severity};
use k8s_openapi::api::core::v1::ObjectReference;

use super::claim::{PolicyKey, PolicyKind};
use super::policy::{Policy, PolicyRecord};
use super::template::Template;

/// The source component of the detector's events.
pub(super) const COMPONENT: &str = "resource-detector";

/// A policy was applied to a template.
pub(super) fn applied(template: &Template, policy: &Policy) -> Happening {
    about(
        template,
        Severity::Normal,
        "ApplyPolicySucceed",
        format!("Apply {} succeed", policy.key),
    )
}

/// A policy could not be applied to a template.
pub(super) fn not_applied(template: &Template, policy: &Policy, error: &str) -> Happening {
    about(
        template,
        Severity::Warning,
        "ApplyPolicyFailed",
        format!("Apply {} failed: {error}", policy.key),
    )
}

/// Replicas were read from a template.
pub(super) fn interpreted(template: &Template) -> Happening {
    about(
        template,
        Severity::Normal,
        "GetReplicasSucceed",
        "Get replicas of resource template successfully.".to_owned(),
    )
}

/// Replicas could not be read from a template.
pub(super) fn not_interpreted(template: &Template, error: &str) -> Happening {
    about(
        template,
        Severity::Warning,
        "GetReplicasFailed",
        error.to_owned(),
    )
}

/// A policy took a template from another one.
pub(super) fn taken(template: &Template, by: &PolicyKey, from: &PolicyKey) -> Happening {
    about(
        template,
        Severity::Normal,
        "PreemptPolicySucceed",
        format!(
            "{} preempted {} successfully",
            capitalised(by),
            in_text(from)
        ),
    )
}

/// A policy could not take a template from another one.
pub(super) fn not_taken(
    template: &Template,
    by: &PolicyKey,
    from: &PolicyKey,
    error: &str,
) -> Happening {
    about(
        template,
        Severity::Warning,
        "PreemptPolicyFailed",
        format!(
            "{} failed to preempt {}: {error}",
            capitalised(by),
            in_text(from)
        ),
    )
}

/// A policy that was stored although it breaks a rule.
pub(super) fn refused(policy: &PolicyRecord, reason: &str) -> Happening {
    about_policy(policy, "InvalidPolicy", reason)
}

/// A selector of a policy, for templates or for clusters, that matches nothing because it is not valid.
pub(super) fn faulty_selector(policy: &PolicyRecord, fault: &str) -> Happening {
    let reason = if fault.starts_with("spec.placement.") {
        "InvalidClusterAffinity"
    } else {
        "InvalidResourceSelector"
    };
    about_policy(policy, reason, fault)
}

/// A selector of a policy that names an API which the control plane does not serve.
pub(super) fn unserved_api(policy: &PolicyRecord, fault: &str) -> Happening {
    about_policy(policy, "APINotServed", fault)
}

/// As a message begins with it.
fn capitalised(key: &PolicyKey) -> String {
    let kind = match key.kind {
        PolicyKind::Namespaced => "Propagation policy",
        PolicyKind::Cluster => "Cluster propagation policy",
    };
    format!("{kind}({})", key.full_name())
}

/// As a message goes on with it.
fn in_text(key: &PolicyKey) -> String {
    let kind = match key.kind {
        PolicyKind::Namespaced => "propagation policy",
        PolicyKind::Cluster => "cluster propagation policy",
    };
    format!("{kind}({})", key.full_name())
}

fn about(
    template: &Template,
    severity: Severity,
    reason: &'static str,
    message: String,
) -> Happening {
    let key = &template.key;
    Happening {
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

fn about_policy(policy: &PolicyRecord, reason: &'static str, message: &str) -> Happening {
    let key = &policy.key;
    let kind = match key.kind {
        PolicyKind::Namespaced => "PropagationPolicy",
        PolicyKind::Cluster => "ClusterPropagationPolicy",
    };
    Happening {
        object: ObjectReference {
            api_version: Some("policy.karmada.io/v1alpha1".to_owned()),
            kind: Some(kind.to_owned()),
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
