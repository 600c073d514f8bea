//! Names that controllers derive from other names.

/// The name of the binding of a resource: `Deployment nginx` gives `nginx-deployment`.
pub fn binding_name(kind: &str, name: &str) -> String {
    format!("{}-{kind}", name.replace(':', ".")).to_lowercase()
}

/// The execution namespace of a cluster.
pub fn execution_namespace(cluster: &str) -> String {
    format!("{}{cluster}", crate::well_known::EXECUTION_SPACE_PREFIX)
}

/// Whether a namespace belongs to the system: nothing in it is propagated.
pub fn is_reserved_namespace(namespace: &str) -> bool {
    namespace == crate::well_known::NAMESPACE_SYSTEM
        || namespace == crate::well_known::NAMESPACE_CLUSTER
        || namespace.starts_with(crate::well_known::EXECUTION_SPACE_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binding_names_are_lower_case_and_have_no_colons() {
        assert_eq!(binding_name("Deployment", "nginx"), "nginx-deployment");
        assert_eq!(
            binding_name("ClusterRole", "system:Foo"),
            "system.foo-clusterrole"
        );
    }
}
