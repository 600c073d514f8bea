//! Creation of pods from templates, and short hashes for generated names.

use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::Serialize;

/// The alphabet of generated names in Kubernetes. It has no vowels, so that names form no words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Returns a pod with the labels, annotations and spec of a template.
pub(crate) fn pod(
    template: &PodTemplateSpec,
    namespace: Option<&String>,
    name: String,
    owner: Option<Vec<OwnerReference>>,
) -> Pod {
    let metadata = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: namespace.cloned(),
            labels: metadata.labels,
            annotations: metadata.annotations,
            finalizers: metadata.finalizers,
            owner_references: owner,
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// Returns names for new pods. The names depend on the time.
pub(crate) fn fresh_names(prefix: String, now: jiff::Timestamp) -> impl Iterator<Item = String> {
    (0_u64..).map(move |number| {
        let salt = format!("{}.{number}", now.as_nanosecond());
        format!("{prefix}-{}", short_name(&prefix, &salt, 5))
    })
}

/// Returns a hash of a value. A different `salt` gives a different hash.
pub(crate) fn hash(value: &impl Serialize, salt: &str) -> u64 {
    // Values from the server can always be serialised.
    let text = serde_json::to_vec(value).unwrap_or_default();
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in text.iter().chain(salt.as_bytes()) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    // The lowest bits of the hash have the lowest quality.
    hash ^ (hash >> 32)
}

/// Returns a short hash of a value as text. A different `salt` gives a different hash.
pub(crate) fn short_name(value: &impl Serialize, salt: &str, length: usize) -> String {
    let mut rest = hash(value, salt);
    let mut name = String::with_capacity(length);
    for _ in 0..length {
        let index = usize::try_from(rest % 27).unwrap_or_default();
        name.push(char::from(ALPHABET.get(index).copied().unwrap_or(b'x')));
        rest /= 27;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_equal_hashes_unless_salted() {
        let name = short_name(&"a", "", 10);
        assert_eq!(name, short_name(&"a", "", 10));
        assert_eq!(name.len(), 10);
        assert_ne!(name, short_name(&"b", "", 10));
        let names: std::collections::BTreeSet<_> = (0..1000)
            .map(|i| short_name(&"a", &i.to_string(), 5))
            .collect();
        assert_eq!(names.len(), 1000);
    }
}
