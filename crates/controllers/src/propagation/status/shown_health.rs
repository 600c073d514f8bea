//! The conditions `Healthy` that bindings show. A scheduler writes all conditions of a binding, and may not have seen the
//! newest ones, so that the condition may have to be written again.

use std::collections::HashMap;

use berth_api::{Binding, BindingKey};

use super::health::fingerprint;
use super::writer::Written;

/// The conditions `Healthy` of bindings, as this process has last written or found them. After a restart, the first status
/// of each binding is compared with what it shows anyway.
#[derive(Debug, Default)]
pub(crate) struct ShownHealth(HashMap<BindingKey, Shown>);

#[derive(Clone, Copy, Debug)]
struct Shown {
    /// The resource version of the binding.
    version: u64,
    fingerprint: u64,
}

impl ShownHealth {
    /// Records what a binding shows after a write of its status.
    pub(crate) fn record(&mut self, key: &BindingKey, written: Written) {
        let Written::Shown { version, health } = written else {
            return;
        };
        if let Some(version) = version {
            let shown = Shown {
                version,
                fingerprint: health,
            };
            self.0.insert(key.clone(), shown);
        }
    }

    /// Reports whether a binding has shown the condition.
    pub(crate) fn has_shown(&self, key: &BindingKey) -> bool {
        let shown = self.0.get(key);
        shown.is_some_and(|shown| shown.fingerprint != fingerprint(&[]))
    }

    /// Reports whether another client has replaced the condition since.
    pub(crate) fn is_overwritten(&self, binding: &Binding) -> bool {
        let Some(shown) = self.0.get(&binding.key) else {
            return false;
        };
        let version = binding.resource_version().parse().unwrap_or(0);
        version > shown.version && fingerprint(&binding.status.conditions) != shown.fingerprint
    }

    /// Removes a binding.
    pub(crate) fn forget(&mut self, key: &BindingKey) {
        self.0.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use berth_api::ResourceBinding;
    use serde_json::json;

    use super::*;

    fn binding(version: u64, reason: &str) -> Binding {
        let binding: ResourceBinding = serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "n", "resourceVersion": version.to_string() },
            "spec": { "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" } },
            "status": { "conditions": [{ "type": "Healthy", "status": "False", "reason": reason,
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" }] },
        }))
        .unwrap();
        binding.into()
    }

    #[test]
    fn only_a_later_version_with_another_condition_is_overwritten() {
        let mut shown = ShownHealth::default();
        let written = binding(5, "NotReady");
        assert!(!shown.is_overwritten(&binding(6, "Other")));
        shown.record(&written.key, Written::Deferred);
        assert!(!shown.is_overwritten(&binding(6, "Other")));
        let health = fingerprint(&written.status.conditions);
        let version = Some(5);
        shown.record(&written.key, Written::Shown { version, health });
        for (version, reason, expected) in [
            (4, "Other", false),
            (5, "NotReady", false),
            (6, "NotReady", false),
            (6, "Other", true),
        ] {
            let found = shown.is_overwritten(&binding(version, reason));
            assert_eq!(found, expected, "{version} {reason}");
        }
        shown.forget(&written.key);
        assert!(!shown.is_overwritten(&binding(6, "Other")));
    }
}
