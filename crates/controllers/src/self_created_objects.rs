//! A check for objects that every cluster creates for itself, such as `kube-root-ca.crt`. These objects are not
//! propagated: otherwise the control plane and a member would overwrite each other's objects endlessly.

/// The ConfigMap with the CA certificate of the cluster, which exists in each namespace.
pub(crate) const ROOT_CA: &str = "kube-root-ca.crt";

/// The namespaces that every cluster creates. A member refuses their deletion, so that a Work with such a namespace could
/// never be deleted.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Reports whether every cluster creates this object for itself.
pub fn is_made_by_server(group: &str, kind: &str, namespace: &str, name: &str) -> bool {
    match (group, kind) {
        ("", "ConfigMap") => {
            name == ROOT_CA
                || (namespace == "kube-system" && name == "extension-apiserver-authentication")
        }
        ("", "Namespace") => NAMESPACES.contains(&name),
        ("", "Service" | "Endpoints") | ("discovery.k8s.io", "EndpointSlice") => {
            namespace == "default" && name == "kubernetes"
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_of_the_right_kind_and_namespace_are_server_objects() {
        for (group, kind, namespace, name, made) in [
            ("", "ConfigMap", "any", "kube-root-ca.crt", true),
            ("", "Secret", "any", "kube-root-ca.crt", false),
            ("", "Service", "default", "kubernetes", true),
            ("", "Service", "any", "kubernetes", false),
            ("example.com", "Service", "default", "kubernetes", false),
            ("", "Namespace", "", "default", true),
            ("", "Namespace", "", "kube-node-lease", true),
            ("", "Namespace", "", "shop", false),
            (
                "discovery.k8s.io",
                "EndpointSlice",
                "default",
                "kubernetes",
                true,
            ),
        ] {
            let found = is_made_by_server(group, kind, namespace, name);
            assert_eq!(found, made, "{kind} {namespace}/{name}");
        }
    }
}
