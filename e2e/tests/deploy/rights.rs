//! The rights that Roles and ClusterRoles grant, and checks that requests use exactly these rights. A [`Right`] is one
//! verb on one resource.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use kube::{Api, Client};

use crate::audit::Request;

/// One verb on one resource, which a rule of a Role or ClusterRole grants.
#[derive(Clone, Debug)]
pub(crate) struct Right {
    group: String,
    pub(crate) resource: String,
    pub(crate) verb: String,
    /// The name of the object, if the right covers a single object.
    name: Option<String>,
    /// The namespace, if the right comes from a Role.
    namespace: Option<String>,
}

/// Returns the rights of a Role in `karmada-system`.
pub(crate) async fn granted_by_role(client: &Client, name: &str) -> Vec<Right> {
    let system: Api<Role> = Api::namespaced(client.clone(), "karmada-system");
    let role = system.get(name).await.unwrap();
    expand(role.rules.unwrap_or_default(), Some("karmada-system"))
}

/// Returns the rights of an account: the rights of the ClusterRole with its name, and the rights of the Role with its
/// name in `karmada-system` if this Role exists.
pub(crate) async fn granted_to(client: &Client, account: &str) -> Vec<Right> {
    let everywhere: Api<ClusterRole> = Api::all(client.clone());
    let role = everywhere.get(account).await.unwrap();
    let mut rights = expand(role.rules.unwrap_or_default(), None);
    let system: Api<Role> = Api::namespaced(client.clone(), "karmada-system");
    if let Some(role) = system.get_opt(account).await.unwrap() {
        rights.extend(expand(
            role.rules.unwrap_or_default(),
            Some("karmada-system"),
        ));
    }
    rights
}

/// Splits rules into single rights.
fn expand(rules: Vec<PolicyRule>, namespace: Option<&str>) -> Vec<Right> {
    let mut rights = Vec::new();
    for rule in rules {
        let names = match rule.resource_names.unwrap_or_default() {
            names if names.is_empty() => vec![None],
            names => names.into_iter().map(Some).collect(),
        };
        for group in rule.api_groups.unwrap_or_default() {
            for resource in rule.resources.clone().unwrap_or_default() {
                for verb in &rule.verbs {
                    rights.extend(names.iter().map(|name| Right {
                        group: group.clone(),
                        resource: resource.clone(),
                        verb: verb.clone(),
                        name: name.clone(),
                        namespace: namespace.map(str::to_owned),
                    }));
                }
            }
        }
    }
    rights
}

impl Right {
    /// Reports whether this right allows the request.
    pub(crate) fn allows(&self, request: &Request) -> bool {
        (self.group == "*" || self.group == request.group)
            && (self.resource == "*" || self.resource == request.resource)
            && self.verb == request.verb
            && self.name.as_ref().is_none_or(|name| *name == request.name)
            && self
                .namespace
                .as_ref()
                .is_none_or(|namespace| *namespace == request.namespace)
    }
}

/// Returns an error that lists the rights that no request used.
pub(crate) fn all_are_used<'a>(
    rights: impl IntoIterator<Item = &'a Right>,
    requests: &[Request],
) -> Result<(), String> {
    let idle: Vec<String> = rights
        .into_iter()
        .filter(|right| !requests.iter().any(|request| right.allows(request)))
        .map(|right| format!("{right:?}"))
        .collect();
    if idle.is_empty() {
        Ok(())
    } else {
        Err(format!("never used:\n{}", idle.join("\n")))
    }
}

/// Panics if one of the requests was forbidden.
pub(crate) fn assert_none_is_forbidden(requests: &[Request]) {
    let forbidden: Vec<String> = requests
        .iter()
        .filter(|request| request.is_forbidden())
        .map(|request| format!("{request:?}"))
        .collect();
    assert!(forbidden.is_empty(), "{}", forbidden.join("\n"));
}

/// Checks that the user agent of all requests names the component.
pub(crate) fn assert_all_name_their_component(requests: &[Request], component: &str) {
    let prefix = format!("{component}/v");
    let mut others = requests.iter();
    let other = others.find(|request| !request.agent.starts_with(&prefix));
    assert!(other.is_none(), "{other:?}");
}
