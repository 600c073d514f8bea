//! The rights that joining grants to the account of the control plane in a member.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use k8s_openapi::api::rbac::v1::PolicyRule;

/// A resource in the notation of kubectl: `services`, `deployments.apps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupResource {
    group: String,
    resource: String,
}

impl GroupResource {
    /// Returns the API group, which is empty for the core group.
    pub(super) fn group(&self) -> &str {
        &self.group
    }

    /// Returns the name of the resource, in the plural.
    pub(super) fn resource(&self) -> &str {
        &self.resource
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, resource } = self;
        match group.as_str() {
            "" => f.write_str(resource),
            group => write!(f, "{resource}.{group}"),
        }
    }
}

/// The error for a text that is not a valid [`GroupResource`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected RESOURCE or RESOURCE.GROUP in lower case and plural, such as services or deployments.apps"
)]
pub struct ResourceError;

impl FromStr for GroupResource {
    type Err = ResourceError;

    fn from_str(text: &str) -> Result<Self, ResourceError> {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        let is_name = |name: &str| {
            let mut bytes = name.bytes();
            bytes.all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.'))
        };
        let is_complete = !resource.is_empty() && !text.ends_with('.');
        if is_complete && is_name(resource) && is_name(group) {
            Ok(Self {
                group: group.to_owned(),
                resource: resource.to_owned(),
            })
        } else {
            Err(ResourceError)
        }
    }
}

/// The rights of the account of the control plane in a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Rights {
    /// All verbs on all resources, the same rights that karmadactl grants.
    #[default]
    All,
    /// Reading and writing of these resources and of namespaces, and the rights to collect the status of the Cluster.
    Resources(Vec<GroupResource>),
}

impl Rights {
    /// Returns the rights to manage these resources, or all rights for an empty list.
    pub(super) fn of(resources: Vec<GroupResource>) -> Self {
        if resources.is_empty() {
            Self::All
        } else {
            Self::Resources(resources)
        }
    }

    /// Returns the rules of the ClusterRole. With limited rights, the control plane may delete the roles of the accounts
    /// `impersonators`, which an earlier registration with all rights may have created.
    pub(super) fn rules(&self, impersonators: &[&str]) -> Vec<PolicyRule> {
        match self {
            Self::All => vec![rule("*", ["*"], &["*"]), paths(&["*"])],
            Self::Resources(resources) => {
                let mut rules = vec![
                    rule("", ["nodes", "pods"], READ),
                    rule("", ["namespaces"], WRITE),
                    PolicyRule {
                        resource_names: Some(words(impersonators)),
                        ..rule(
                            "rbac.authorization.k8s.io",
                            ["clusterroles", "clusterrolebindings"],
                            &["get", "delete"],
                        )
                    },
                    paths(&["/healthz", "/livez", "/readyz", "/version", "/api*"]),
                ];
                let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
                for GroupResource { group, resource } in resources {
                    groups.entry(group).or_default().push(resource);
                }
                rules.extend(
                    groups
                        .into_iter()
                        .map(|(group, resources)| rule(group, resources, WRITE)),
                );
                rules
            }
        }
    }
}

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &[
    "get", "list", "watch", "create", "update", "patch", "delete",
];

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn rule<'a>(
    group: &str,
    resources: impl IntoIterator<Item = &'a str>,
    verbs: &[&str],
) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(resources.into_iter().map(str::to_owned).collect()),
        verbs: words(verbs),
        ..PolicyRule::default()
    }
}

fn paths(paths: &[&str]) -> PolicyRule {
    PolicyRule {
        non_resource_urls: Some(words(paths)),
        verbs: words(&["get"]),
        ..PolicyRule::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_named_as_in_kubectl() {
        let parsed = |text: &str| {
            let parsed = text.parse::<GroupResource>().ok()?;
            Some((parsed.resource, parsed.group))
        };
        for (text, expected) in [
            ("services", Some(("services", ""))),
            ("deployments.apps", Some(("deployments", "apps"))),
            (
                "ingresses.networking.k8s.io",
                Some(("ingresses", "networking.k8s.io")),
            ),
            ("", None),
            (".apps", None),
            ("deployments.", None),
            ("Deployment", None),
            ("pods/exec", None),
            ("*", None),
        ] {
            let expected =
                expected.map(|(resource, group)| (resource.to_owned(), group.to_owned()));
            assert_eq!(parsed(text), expected, "{text:?}");
        }
    }

    #[test]
    fn rights_for_services_and_deployments_include_no_secrets_roles_or_impersonation() {
        let resources = ["services", "deployments.apps"].map(|text| text.parse().unwrap());
        let rules = Rights::of(resources.to_vec()).rules(&["i"]);
        let (named, rules): (Vec<PolicyRule>, Vec<PolicyRule>) = rules
            .into_iter()
            .partition(|rule| rule.resource_names.is_some());
        let text = serde_json::to_string(&rules).unwrap();
        for word in ["*\"", "secrets", "roles", "impersonate", "escalate", "bind"] {
            let found = text.replace("/api*\"", "").contains(word);
            assert!(!found, "{word}: {text}");
        }
        assert_eq!(
            serde_json::to_value(named).unwrap(),
            serde_json::json!([{ "apiGroups": ["rbac.authorization.k8s.io"], "resourceNames": ["i"],
                "resources": ["clusterroles", "clusterrolebindings"], "verbs": ["get", "delete"] }])
        );
    }
}
