//! The decision which namespaces are created in members, and the content of their Works.

use std::collections::BTreeMap;

use berth_api::well_known::{
    APPLIED_CLUSTER_OVERRIDES, MANAGED, MANAGED_VALUE, SKIP_AUTO_PROPAGATION, TEMPLATE_UID,
    WORK_NAME, WORK_NAMESPACE,
};
use berth_api::{Cluster, manifest, names};
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;
use regex::Regex;
use serde_json::json;

use crate::overrides::{AppliedOverrides, OverrideError, OverrideSet};
use crate::owned_work::OwnedWork;
use crate::propagation::binding::desired_work::DesiredWork;

/// Reports whether a namespace is created in members.
pub(crate) fn should_be_synced(namespace: &Namespace, skipped: &[Regex]) -> bool {
    let name = namespace.name_any();
    let opts_out = namespace.labels().get(SKIP_AUTO_PROPAGATION);
    name != "default"
        && namespace.metadata.deletion_timestamp.is_none()
        && !names::is_reserved_namespace(&name)
        && !skipped.iter().any(|expression| expression.is_match(&name))
        && !opts_out.is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// The desired Work of a namespace in a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Desired {
    /// The Work.
    pub(crate) owned: OwnedWork,
    /// The overrides that are applied to the namespace.
    pub(crate) applied: AppliedOverrides,
}

impl Desired {
    /// Returns the desired Work of a namespace in a cluster.
    ///
    /// # Errors
    /// When an override cannot be applied to the namespace.
    pub(crate) fn of(
        namespace: &Namespace,
        cluster: &Cluster,
        overrides: &OverrideSet,
    ) -> Result<Self, OverrideError> {
        let cluster_name = cluster.name_any();
        let name = names::work_name("Namespace", &namespace.name_any(), "");
        let mut manifest = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": namespace.metadata,
            "spec": namespace.spec,
        });
        let applied = overrides.apply(&mut manifest, cluster)?;
        let metadata = &mut manifest["metadata"];
        let marks = [
            (TEMPLATE_UID, namespace.uid().unwrap_or_default()),
            (WORK_NAME, name.clone()),
            (WORK_NAMESPACE, names::execution_namespace(&cluster_name)),
        ];
        for (key, value) in marks {
            metadata["annotations"][key] = json!(value);
        }
        metadata["labels"][MANAGED] = json!(MANAGED_VALUE);
        manifest::prune(&mut manifest);
        let annotations = applied
            .cluster
            .clone()
            .map(|json| (APPLIED_CLUSTER_OVERRIDES.to_owned(), json));
        let work = DesiredWork {
            cluster: cluster_name,
            name,
            labels: BTreeMap::new(),
            annotations: annotations.into_iter().collect(),
            manifest,
            suspended: false,
            preserved: false,
        };
        Ok(Self {
            owned: OwnedWork::new(work, namespace),
            applied,
        })
    }
}

#[cfg(test)]
mod tests {
    use berth_api::Work;
    use serde_json::Value;

    use super::*;
    use crate::propagation::binding::work_patch;

    fn namespace(value: Value) -> Namespace {
        serde_json::from_value(json!({ "metadata": value })).unwrap()
    }

    #[test]
    fn system_skipped_and_opted_out_namespaces_are_not_synced() {
        let skipped = [Regex::new("^(?:kube-.*)$").unwrap()];
        for (metadata, expected) in [
            (json!({"name": "shop"}), true),
            (json!({"name": "kube"}), true),
            (json!({"name": "kube-system"}), false),
            (json!({"name": "default"}), false),
            (json!({"name": "karmada-es-m1"}), false),
            (json!({"name": "karmada-cluster"}), false),
            (
                json!({"name": "shop", "labels": {(SKIP_AUTO_PROPAGATION): "True"}}),
                false,
            ),
            (
                json!({"name": "shop", "labels": {(SKIP_AUTO_PROPAGATION): "no"}}),
                true,
            ),
            (
                json!({"name": "shop", "deletionTimestamp": "2026-01-01T00:00:00Z"}),
                false,
            ),
        ] {
            let text = metadata.to_string();
            assert_eq!(
                should_be_synced(&namespace(metadata), &skipped),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn the_work_contains_the_namespace_and_is_owned_by_it() {
        let cluster = Cluster::new("m1", berth_api::cluster::ClusterSpec::default());
        let shop = namespace(json!({"name": "shop", "uid": "u-1", "resourceVersion": "7",
            "labels": {"team": "a"}}));
        let of = |namespace: &Namespace| {
            let desired = Desired::of(namespace, &cluster, &OverrideSet::default());
            desired.unwrap().owned
        };
        let desired = of(&shop);
        let work: Work = serde_json::from_value(desired.new_work("w-1")).unwrap();
        assert_eq!(work.name_any(), names::work_name("Namespace", "shop", ""));
        assert_eq!(work.namespace().as_deref(), Some("karmada-es-m1"));
        assert!(desired.owns(&work));
        assert!(!of(&namespace(json!({"name": "shop", "uid": "u-2"}))).owns(&work));
        let manifest = &work.spec.workload.manifests[0];
        assert_eq!(manifest["metadata"]["labels"]["team"], "a");
        assert_eq!(manifest["metadata"]["labels"][MANAGED], MANAGED_VALUE);
        assert_eq!(manifest["metadata"]["annotations"][TEMPLATE_UID], "u-1");
        assert_eq!(manifest["metadata"]["resourceVersion"], Value::Null);
        assert_eq!(work_patch::patch_for(&work, &desired.work), None);
    }
}
