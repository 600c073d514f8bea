//! Validation of the annotation [`REPLICA_LIMITS`] of propagation policies. Karmada does not know the annotation.
//!
//! An update that keeps the value is not checked, so that a stored policy with an invalid value can lose its finalizer.

use serde_json::Value;

use super::GuardedKind;
use super::field_error::{FieldError, Path};
use super::metadata::entry;
use crate::replica_limits::ReplicaLimits;
use crate::well_known::REPLICA_LIMITS;

/// Checks the annotation of a policy. `old` is the stored object of an update.
pub(super) fn check(kind: GuardedKind, old: Option<&Value>, policy: &Value) -> Option<FieldError> {
    let is_policy = matches!(
        kind,
        GuardedKind::PropagationPolicy | GuardedKind::ClusterPropagationPolicy
    );
    let value = entry(policy, "annotations", REPLICA_LIMITS).filter(|_| is_policy)?;
    let stored = old.and_then(|old| entry(old, "annotations", REPLICA_LIMITS));
    if stored == Some(value) {
        return None;
    }
    let error = ReplicaLimits::parse(value).err()?;
    let path = Path::new("metadata.annotations").key(REPLICA_LIMITS);
    Some(path.invalid(error.reason()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(limits: &str) -> Value {
        json!({ "metadata": { "name": "web", "annotations": { REPLICA_LIMITS: limits } } })
    }

    #[test]
    fn new_invalid_limits_are_refused() {
        let kind = GuardedKind::ClusterPropagationPolicy;
        let (valid, invalid) = (policy(r#"{"spread": "Even"}"#), policy("{"));
        assert_eq!(check(kind, None, &valid), None);
        assert_eq!(check(kind, None, &json!({ "metadata": {} })), None);
        for old in [None, Some(&valid)] {
            let error = check(kind, old, &invalid).map(|error| error.to_string());
            let text = "metadata.annotations[scheduling.berth/replica-limits]: EOF while parsing an object at line 1 column 1";
            assert_eq!(error.as_deref(), Some(text));
        }
        assert_eq!(check(kind, Some(&invalid), &invalid), None);
        assert_eq!(check(GuardedKind::Work, None, &invalid), None);
    }
}
