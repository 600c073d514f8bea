//! Names of member clusters, and names that controllers derive from the names of other objects.
//!
//! ```
//! use berth_api::names::{binding_name, cluster_of_execution_namespace, execution_namespace};
//!
//! assert_eq!(binding_name("Deployment", "nginx"), "nginx-deployment");
//! assert_eq!(execution_namespace("member1"), "karmada-es-member1");
//! assert_eq!(cluster_of_execution_namespace("karmada-es-member1"), Some("member1"));
//! ```

/// Maximum length of a Cluster's name, as in Karmada. With this limit, the name of the execution namespace fits into 63
/// characters.
pub(crate) const MAX_CLUSTER_NAME: usize = 48;

/// Returns the name of the binding of a resource: `nginx-deployment` for the Deployment `nginx`.
pub fn binding_name(kind: &str, name: &str) -> String {
    format!("{}-{kind}", name.replace(':', ".")).to_lowercase()
}

/// Returns the name of the execution namespace of a cluster.
pub fn execution_namespace(cluster: &str) -> String {
    format!("{}{cluster}", crate::well_known::EXECUTION_SPACE_PREFIX)
}

/// Returns the name of the cluster to which an execution namespace belongs, or `None` for any other namespace.
pub fn cluster_of_execution_namespace(namespace: &str) -> Option<&str> {
    namespace
        .strip_prefix(crate::well_known::EXECUTION_SPACE_PREFIX)
        .filter(|cluster| !cluster.is_empty())
}

/// Returns the name of the Work for a resource. The namespace is empty for cluster-scoped resources.
pub fn work_name(kind: &str, name: &str, namespace: &str) -> String {
    let name = name.replace(':', ".").to_lowercase();
    let hashed = if namespace.is_empty() {
        format!("{name}-{kind}")
    } else {
        format!("{namespace}-{name}-{kind}")
    };
    let hash = hash_text(&hashed.to_lowercase());
    format!("{name}-{hash}")
}

/// Maximum length of the name of an object.
const MAX_NAME: usize = 253;

/// An error: the name of a resource leaves no room for a name that is derived from it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the {derived} of this resource would have a name of {length} characters; at most {MAX_NAME} are allowed"
)]
pub struct DerivedNameTooLong {
    derived: &'static str,
    length: usize,
}

/// Checks that the binding of a resource and its Works can have the names that are derived from the resource.
///
/// # Errors
/// When the API server would refuse one of the names.
pub fn check_derived_names(
    kind: &str,
    name: &str,
    namespace: &str,
) -> Result<(), DerivedNameTooLong> {
    let binding = binding_name(kind, name).len();
    let work = work_name(kind, name, namespace).len();
    for (derived, length) in [("binding", binding), ("Work", work)] {
        if length > MAX_NAME {
            return Err(DerivedNameTooLong { derived, length });
        }
    }
    Ok(())
}

/// Returns the hash that identifies a binding in a label key. The name of the binding may be too long for a label key.
pub fn binding_reference_key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        hash_text(name)
    } else {
        hash_text(&format!("{namespace}/{name}"))
    }
}

/// Returns the 32-bit FNV-1a hash of a text. Like `rand.SafeEncodeString` of Kubernetes, it encodes the hash with
/// letters and digits that form no words.
fn hash_text(text: &str) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash.to_string()
        .bytes()
        .map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]))
        .collect()
}

/// Reports whether a namespace is reserved for Karmada. Resources in reserved namespaces are not propagated.
pub fn is_reserved_namespace(namespace: &str) -> bool {
    namespace == crate::well_known::NAMESPACE_SYSTEM
        || namespace == crate::well_known::NAMESPACE_CLUSTER
        || namespace.starts_with(crate::well_known::EXECUTION_SPACE_PREFIX)
}

/// Parses the name of a member, which is a DNS label. The length is limited because other names are derived from it.
///
/// # Errors
/// Returns the rule that the name violates.
pub fn cluster_name(text: &str) -> Result<String, String> {
    let is_inner = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    if text.is_empty() || text.len() > MAX_CLUSTER_NAME {
        return Err(format!("must have 1 to {MAX_CLUSTER_NAME} characters"));
    }
    let valid = text.chars().all(|letter| is_inner(letter) || letter == '-')
        && text.starts_with(is_inner)
        && text.ends_with(is_inner);
    if valid {
        Ok(text.to_owned())
    } else {
        Err("must consist of lower case letters, digits and '-', and begin and end with a letter or digit".to_owned())
    }
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

    #[test]
    fn work_names_end_in_a_hash_of_namespace_name_and_kind() {
        assert_eq!(
            work_name("Deployment", "nginx", "default"),
            "nginx-687f7fb96f"
        );
        assert_eq!(
            work_name("ClusterRole", "system:foo", ""),
            "system.foo-5f7d88f69"
        );
        assert_eq!(work_name("Namespace", "default", ""), "default-5b5ccb595b");
    }

    #[test]
    fn derived_names_must_fit_into_the_name_of_an_object() {
        let long = |length: usize| "a".repeat(length);
        for (kind, length, fits) in [
            ("Pod", 242, true),
            ("Pod", 253, false),
            ("Pod", 249, false),
            ("ValidatingWebhookConfiguration", 222, true),
            ("ValidatingWebhookConfiguration", 223, false),
        ] {
            let checked = check_derived_names(kind, &long(length), "shop");
            assert_eq!(checked.is_ok(), fits, "{kind} {length}");
        }
    }

    #[test]
    fn binding_reference_keys_are_hashes_of_namespace_and_name() {
        for (name, expected) in [
            ("shop-deployment", "674d9457df"),
            ("api-deployment", "94d9d9879"),
        ] {
            assert_eq!(binding_reference_key("default", name), expected);
        }
        assert_ne!(
            binding_reference_key("a", "b-c"),
            binding_reference_key("a-b", "c")
        );
    }

    #[test]
    fn cluster_is_derived_from_execution_namespace() {
        let namespace = execution_namespace("m1");
        assert_eq!(cluster_of_execution_namespace(&namespace), Some("m1"));
        assert_eq!(cluster_of_execution_namespace("karmada-es-"), None);
        assert_eq!(cluster_of_execution_namespace("default"), None);
    }

    #[test]
    fn member_names_are_dns_labels() {
        for name in ["a", "member-1", "0", &"a".repeat(48)] {
            assert_eq!(cluster_name(name), Ok(name.to_owned()));
        }
        for name in ["", "-a", "a-", "A", "a.b", "a_b", &"a".repeat(49)] {
            assert!(cluster_name(name).is_err(), "{name}");
        }
    }
}
