//! The prevention of privilege escalation. The writer of a role must have the rules of the role, or the verb
//! `escalate`. The writer of a binding must have the rules of the bound role, or the verb `bind`.

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;

use super::attributes::Attributes;
use super::index::Index;
use super::rule;
use crate::error::ApiError;
use crate::identity::Identity;
use crate::store::Key;

const GROUP: &str = "rbac.authorization.k8s.io";

/// A write of a role or binding, and the identity of the writer.
pub(crate) struct Grant<'a> {
    pub(crate) identity: &'a Identity,
    /// Plural name of the resource.
    pub(crate) resource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) old: Option<&'a Value>,
    pub(crate) new: &'a Value,
}

/// Refuses a write of a role or binding that grants rules that the writer does not have.
pub(crate) fn check(index: &Index, grant: &Grant<'_>) -> Result<(), ApiError> {
    if grant.identity.is_master() {
        return Ok(());
    }
    match grant.resource {
        "roles" | "clusterroles" => role(index, grant),
        "rolebindings" | "clusterrolebindings" => binding(index, grant),
        _ => Ok(()),
    }
}

fn has_permission(
    index: &Index,
    grant: &Grant<'_>,
    verb: &str,
    resource: &str,
    name: &str,
) -> bool {
    let attributes = Attributes::on(verb, GROUP, resource, grant.namespace, name);
    index.allows(grant.identity, &attributes)
}

/// Reports whether a write changes only the metadata that garbage collection writes.
fn changes_only_gc_metadata(grant: &Grant<'_>) -> bool {
    const GC_METADATA: [&str; 7] = [
        "creationTimestamp",
        "finalizers",
        "generation",
        "managedFields",
        "ownerReferences",
        "resourceVersion",
        "uid",
    ];
    let bare = |object: &Value| {
        let mut bare = object.clone();
        if let Some(metadata) = bare["metadata"].as_object_mut() {
            metadata.retain(|name, _| !GC_METADATA.contains(&name.as_str()));
        }
        bare
    };
    grant.old.is_some_and(|old| bare(old) == bare(grant.new))
}

fn forbidden(grant: &Grant<'_>, message: &str) -> ApiError {
    ApiError::forbidden(GROUP, grant.resource, grant.name, message)
}

fn role(index: &Index, grant: &Grant<'_>) -> Result<(), ApiError> {
    if changes_only_gc_metadata(grant)
        || has_permission(index, grant, "escalate", grant.resource, grant.name)
    {
        return Ok(());
    }
    let everything = [
        PolicyRule {
            api_groups: Some(vec!["*".to_owned()]),
            resources: Some(vec!["*".to_owned()]),
            verbs: vec!["*".to_owned()],
            ..PolicyRule::default()
        },
        PolicyRule {
            non_resource_urls: Some(vec!["*".to_owned()]),
            verbs: vec!["*".to_owned()],
            ..PolicyRule::default()
        },
    ];
    let aggregates = |v: &Value| v.get("aggregationRule").is_some_and(|r| !r.is_null());
    if (aggregates(grant.new) || grant.old.is_some_and(aggregates))
        && check_covered(index, grant, &everything).is_err()
    {
        return Err(forbidden(
            grant,
            "must have cluster-admin privileges to use the aggregationRule",
        ));
    }
    let rules: Vec<PolicyRule> =
        serde_json::from_value(grant.new["rules"].clone()).unwrap_or_default();
    check_covered(index, grant, &rules)
}

fn binding(index: &Index, grant: &Grant<'_>) -> Result<(), ApiError> {
    if changes_only_gc_metadata(grant) {
        return Ok(());
    }
    let reference = &grant.new["roleRef"];
    let name = reference["name"].as_str().unwrap_or_default();
    let (resource, key) = match reference["kind"].as_str() {
        Some("Role") => ("roles", Key::new(grant.namespace, name)),
        Some("ClusterRole") => ("clusterroles", Key::new("", name)),
        kind => {
            let kind = kind.unwrap_or_default();
            return Err(ApiError::unknown(format!(
                "unsupported role reference kind: \"{kind}\""
            )));
        }
    };
    if has_permission(index, grant, "bind", resource, name) {
        return Ok(());
    }
    if resource == "roles" && grant.namespace.is_empty() {
        return Err(ApiError::bad_request("Namespace parameter required."));
    }
    let Some(rules) = index.role(&key) else {
        return Err(ApiError::not_found(GROUP, grant.resource, name));
    };
    check_covered(index, grant, &rules)
}

/// Refuses a grant of rules that the writer does not have.
fn check_covered(
    index: &Index,
    grant: &Grant<'_>,
    required: &[PolicyRule],
) -> Result<(), ApiError> {
    let rules = index.rules(grant.identity, grant.namespace);
    let own: Vec<&PolicyRule> = rules.iter().flat_map(|r| r.iter()).collect();
    let missing = rule::not_covered(&own, required);
    if missing.is_empty() {
        return Ok(());
    }
    let user = &grant.identity.user;
    let missing = serde_json::to_string(&missing).unwrap_or_default();
    let message = format!(
        "user \"{user}\" is attempting to grant RBAC permissions not currently held: {missing}"
    );
    Err(forbidden(grant, &message))
}
