//! The search for the binding that a name on the command line selects. The name is that of the binding or that of its
//! workload.

use berth_api::Binding;
use berth_controllers::did_you_mean::nearest;
use kube::Client;

use super::error::{ExplainError, list};
use crate::control_plane_lists;

/// Short names of kinds, the same as in kubectl.
const SHORT_NAMES: [(&str, &str); 14] = [
    ("deploy", "deployment"),
    ("sts", "statefulset"),
    ("ds", "daemonset"),
    ("cj", "cronjob"),
    ("svc", "service"),
    ("cm", "configmap"),
    ("ns", "namespace"),
    ("sa", "serviceaccount"),
    ("rb", "resourcebinding"),
    ("crb", "clusterresourcebinding"),
    ("pp", "propagationpolicy"),
    ("cpp", "clusterpropagationpolicy"),
    ("op", "overridepolicy"),
    ("cop", "clusteroverridepolicy"),
];

/// A name on the command line, with the flags that limit the search.
#[derive(Clone, Debug)]
pub struct NameQuery {
    /// The part before the slash: a kind or a namespace.
    prefix: Option<String>,
    name: String,
    kind: Option<String>,
    namespace: String,
    namespace_is_given: bool,
}

impl NameQuery {
    /// Creates a query for `NAME`, `NAMESPACE/NAME` or `KIND/NAME`. Without a namespace, the search is in the namespace
    /// `default_namespace`.
    pub fn new(
        text: &str,
        kind: Option<String>,
        namespace: Option<String>,
        default_namespace: &str,
    ) -> Self {
        let (prefix, name) = match text.split_once('/') {
            Some((prefix, name)) => (Some(prefix.to_owned()), name.to_owned()),
            None => (None, text.to_owned()),
        };
        Self {
            prefix,
            name,
            kind,
            namespace_is_given: namespace.is_some(),
            namespace: namespace.unwrap_or_else(|| default_namespace.to_owned()),
        }
    }

    /// Returns the name as on the command line, without the kind.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the namespace whose bindings are listed. Returns `None`, for all namespaces, if the prefix may be a
    /// namespace.
    pub(crate) fn namespace(&self) -> Option<&str> {
        (self.prefix.is_none() || self.namespace_is_given).then_some(&self.namespace)
    }

    /// Reports whether the query names a kind: with a flag, or before the slash.
    pub(crate) fn names_kind(&self, kind: &str) -> bool {
        let word = self.kind.as_ref().or(self.prefix.as_ref());
        word.is_some_and(|word| is_kind(word, kind))
    }

    /// Reports whether a kind is given with a flag.
    pub(crate) fn has_kind(&self) -> bool {
        self.kind.is_some()
    }

    /// Returns the namespace of the object, if the part before the slash is a kind.
    pub(crate) fn namespace_of_kind(&self) -> &str {
        &self.namespace
    }

    /// Returns the namespace of the object, if the part before the slash is a namespace.
    pub(crate) fn namespace_before_slash(&self) -> &str {
        match &self.prefix {
            Some(prefix) if !self.namespace_is_given => prefix,
            _ => &self.namespace,
        }
    }

    fn matches(&self, binding: &Binding) -> bool {
        let namespace = binding.key.namespace.as_deref();
        let resource = &binding.spec.resource;
        let named = *binding.key.name == *self.name || resource.name == self.name;
        let of_kind = |kind: &str| {
            is_kind(kind, &resource.kind)
                || (is_kind(kind, binding.key.kind().name()) && *binding.key.name == *self.name)
        };
        let in_namespace = namespace.is_none_or(|namespace| namespace == self.namespace);
        let in_scope = match &self.prefix {
            None => in_namespace,
            Some(prefix) => {
                let prefix_matches = !self.namespace_is_given && namespace == Some(prefix);
                prefix_matches || (of_kind(prefix) && in_namespace)
            }
        };
        named && in_scope && self.kind.as_deref().is_none_or(of_kind)
    }

    /// Creates the error for a name that no binding matches. The error lists the same name in other namespaces, or
    /// similar names, or gives advice.
    pub(crate) fn not_found(&self, all: &[Binding]) -> ExplainError {
        let named = |binding: &&Binding| {
            *binding.key.name == *self.name || binding.spec.resource.name == self.name
        };
        let same_name: Vec<String> = all.iter().filter(named).map(describe).collect();
        let known = all
            .iter()
            .flat_map(|binding| [&*binding.key.name, binding.spec.resource.name.as_str()]);
        let is_namespace = |word: &String| {
            let mut namespaces = all.iter().map(|binding| binding.key.namespace.as_deref());
            namespaces.any(|namespace| namespace == Some(word))
        };
        let is_kind = self.kind.is_some() || !self.prefix.as_ref().is_some_and(is_namespace);
        let is_policy = POLICIES.iter().any(|policy| self.names_kind(policy));
        let hint = if is_kind && is_policy {
            ": a policy is not explained; name a workload that it selects".to_owned()
        } else if !same_name.is_empty() {
            format!("; there is {}", list(&same_name))
        } else if let Some(found) = nearest(&self.name, known) {
            let similar: Vec<String> = all
                .iter()
                .filter(|b| *b.key.name == *found || b.spec.resource.name == found)
                .map(describe)
                .collect();
            format!("; did you mean {}?", list(&similar))
        } else if all.is_empty() {
            ": the control plane has no bindings; a policy must select the workload".to_owned()
        } else {
            ", and no such template; `kubectl get resourcebindings -A` lists the bindings"
                .to_owned()
        };
        let kind = self.kind.as_ref().map(|kind| format!("{kind} "));
        let kind = kind.unwrap_or_default();
        let name = match &self.prefix {
            Some(prefix) => format!("{kind}{prefix}/{}", self.name),
            None => format!("{kind}{} in the namespace {}", self.name, self.namespace),
        };
        ExplainError::NotFound { name, hint }
    }
}

/// Reads the binding that a name selects. Also returns all bindings that were listed to find it.
///
/// # Errors
/// Fails if there is no such binding, or if the control plane cannot be read.
pub(crate) async fn read(
    client: &Client,
    query: &NameQuery,
) -> Result<(Binding, Vec<Binding>), ExplainError> {
    let bindings = control_plane_lists::bindings(client, query.namespace()).await?;
    match find(query, &bindings) {
        Ok(binding) => Ok((binding.clone(), bindings)),
        Err(names) if names.is_empty() => {
            let all = control_plane_lists::bindings(client, None).await?;
            Err(query.not_found(&all))
        }
        Err(names) => {
            let name = query.name().to_owned();
            Err(ExplainError::Ambiguous { name, names })
        }
    }
}

/// Returns the only binding that matches. If several match, the binding that has the name itself takes precedence.
///
/// # Errors
/// Returns the matching bindings, described with their workloads, if none or several match.
fn find<'a>(query: &NameQuery, bindings: &'a [Binding]) -> Result<&'a Binding, Vec<String>> {
    let matching: Vec<&Binding> = bindings.iter().filter(|b| query.matches(b)).collect();
    let by_own_name: Vec<&Binding> = matching
        .iter()
        .copied()
        .filter(|binding| *binding.key.name == *query.name)
        .collect();
    match (&by_own_name[..], &matching[..]) {
        ([only], _) | (_, [only]) => Ok(only),
        (_, others) => Err(others.iter().map(|b| describe(b)).collect()),
    }
}

/// Returns the name of a binding with the kind and name of its workload, for a message.
fn describe(binding: &Binding) -> String {
    let resource = &binding.spec.resource;
    format!("{} ({} {})", binding.key, resource.kind, resource.name)
}

/// The kinds of policies.
const POLICIES: [&str; 4] = [
    "PropagationPolicy",
    "ClusterPropagationPolicy",
    "OverridePolicy",
    "ClusterOverridePolicy",
];

/// Reports whether a word names a kind, in the singular, in the plural or as a short name.
fn is_kind(word: &str, kind: &str) -> bool {
    let word = word.to_lowercase();
    let word = word.split('.').next().unwrap_or_default();
    let kind = kind.to_lowercase();
    let long = SHORT_NAMES
        .iter()
        .find(|(short, _)| *short == word)
        .map(|(_, long)| *long);
    word == kind
        || long == Some(kind.as_str())
        || word.strip_suffix('s') == Some(kind.as_str())
        || word.strip_suffix("es") == Some(kind.as_str())
        || word
            .strip_suffix("ies")
            .is_some_and(|stem| kind.strip_suffix('y') == Some(stem))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn binding(namespace: Option<&str>, name: &str, kind: &str, resource: &str) -> Binding {
        let object = json!({
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"resource": {"apiVersion": "v1", "kind": kind, "name": resource}},
        });
        match namespace {
            Some(_) => {
                Binding::from(serde_json::from_value::<berth_api::ResourceBinding>(object).unwrap())
            }
            None => Binding::from(
                serde_json::from_value::<berth_api::ClusterResourceBinding>(object).unwrap(),
            ),
        }
    }

    fn query(text: &str, kind: Option<&str>, namespace: Option<&str>) -> NameQuery {
        let owned = |value: Option<&str>| value.map(str::to_owned);
        NameQuery::new(text, owned(kind), owned(namespace), "default")
    }

    fn bindings() -> [Binding; 5] {
        [
            binding(Some("default"), "web-deployment", "Deployment", "web"),
            binding(Some("default"), "web-service", "Service", "web"),
            binding(Some("default"), "web", "ConfigMap", "settings"),
            binding(Some("shop"), "cart-deployment", "Deployment", "cart"),
            binding(None, "reader-clusterrole", "ClusterRole", "reader"),
        ]
    }

    #[test]
    fn a_name_selects_a_binding_or_the_binding_of_a_workload() {
        for (text, kind, namespace, expected) in [
            ("web-deployment", None, None, Some("web-deployment")),
            ("deployment/web", None, None, Some("web-deployment")),
            ("deploy/web", None, None, Some("web-deployment")),
            ("deployments.apps/web", None, None, Some("web-deployment")),
            ("web", Some("service"), None, Some("web-service")),
            // The name of a binding takes precedence.
            ("web", None, None, Some("web")),
            ("cart", None, None, None),
            ("cart", None, Some("shop"), Some("cart-deployment")),
            ("shop/cart", None, None, Some("cart-deployment")),
            ("shop/cart-deployment", None, None, Some("cart-deployment")),
            ("reader", None, None, Some("reader-clusterrole")),
            ("clusterrole/reader", None, None, Some("reader-clusterrole")),
            ("rb/web-service", None, None, Some("web-service")),
            ("secret/web", None, None, None),
        ] {
            let bindings = bindings();
            let found = find(&query(text, kind, namespace), &bindings);
            let found = found.ok().map(|binding| binding.key.name.to_string());
            assert_eq!(found.as_deref(), expected, "{text} {kind:?} {namespace:?}");
        }
    }

    #[test]
    fn the_error_about_an_unknown_name_contains_a_hint() {
        for (text, expected) in [
            (
                "cart",
                "there is no binding or propagated workload cart in the namespace default; there is shop/cart-deployment (Deployment cart)",
            ),
            (
                "shop/crat",
                "there is no binding or propagated workload shop/crat; did you mean shop/cart-deployment (Deployment cart)?",
            ),
            (
                "readr",
                "there is no binding or propagated workload readr in the namespace default; did you mean reader-clusterrole (ClusterRole reader)?",
            ),
            (
                "pp/cart",
                "there is no binding or propagated workload pp/cart: a policy is not explained; name a workload that it selects",
            ),
            (
                "propagationpolicies/cart",
                "there is no binding or propagated workload propagationpolicies/cart: a policy is not explained; name a workload that it selects",
            ),
            (
                "payments",
                "there is no binding or propagated workload payments in the namespace default, and no such template; `kubectl get resourcebindings -A` lists the bindings",
            ),
        ] {
            assert_eq!(
                query(text, None, None).not_found(&bindings()).to_string(),
                expected
            );
        }
    }
}
