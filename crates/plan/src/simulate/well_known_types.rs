//! The types of the resources that the simulation reads without a lookup: Karmada's own resources and ConfigMaps.

use std::sync::Arc;

use berth_controllers::binding_key::BindingKind;
use berth_controllers::detector::claim::PolicyKind;
use berth_controllers::resource_type::ResourceType;
use kube::core::{ApiResource, GroupVersion};

/// Returns the type of the resource `clusters`.
pub(crate) fn clusters() -> Arc<ResourceType> {
    resource_type("cluster.karmada.io/v1alpha1", "Cluster", "clusters", false)
}

/// Returns the type of the resource `configmaps`.
pub(crate) fn config_maps() -> Arc<ResourceType> {
    resource_type("v1", "ConfigMap", "configmaps", true)
}

/// Returns the type of PropagationPolicies or ClusterPropagationPolicies.
pub(crate) fn policies(kind: PolicyKind) -> Arc<ResourceType> {
    let (name, plural) = match kind {
        PolicyKind::Namespaced => ("PropagationPolicy", "propagationpolicies"),
        PolicyKind::Cluster => ("ClusterPropagationPolicy", "clusterpropagationpolicies"),
    };
    let namespaced = kind == PolicyKind::Namespaced;
    resource_type("policy.karmada.io/v1alpha1", name, plural, namespaced)
}

/// Returns the type of OverridePolicies or ClusterOverridePolicies.
pub(crate) fn overrides(kind: PolicyKind) -> Arc<ResourceType> {
    let (name, plural) = match kind {
        PolicyKind::Namespaced => ("OverridePolicy", "overridepolicies"),
        PolicyKind::Cluster => ("ClusterOverridePolicy", "clusteroverridepolicies"),
    };
    let namespaced = kind == PolicyKind::Namespaced;
    resource_type("policy.karmada.io/v1alpha1", name, plural, namespaced)
}

/// Returns the type of WorkloadRebalancers.
pub(crate) fn rebalancers() -> Arc<ResourceType> {
    resource_type(
        "apps.karmada.io/v1alpha1",
        "WorkloadRebalancer",
        "workloadrebalancers",
        false,
    )
}

/// Returns the type of ResourceInterpreterCustomizations.
pub(crate) fn customizations() -> Arc<ResourceType> {
    resource_type(
        "config.karmada.io/v1alpha1",
        "ResourceInterpreterCustomization",
        "resourceinterpretercustomizations",
        false,
    )
}

/// Returns the type of ResourceInterpreterWebhookConfigurations.
pub(crate) fn interpreter_webhooks() -> Arc<ResourceType> {
    resource_type(
        "config.karmada.io/v1alpha1",
        "ResourceInterpreterWebhookConfiguration",
        "resourceinterpreterwebhookconfigurations",
        false,
    )
}

/// Returns the type of ResourceBindings or ClusterResourceBindings.
pub(crate) fn bindings(kind: BindingKind) -> Arc<ResourceType> {
    let plural = match kind {
        BindingKind::Namespaced => "resourcebindings",
        BindingKind::Cluster => "clusterresourcebindings",
    };
    let namespaced = kind == BindingKind::Namespaced;
    resource_type("work.karmada.io/v1alpha2", kind.name(), plural, namespaced)
}

/// Creates a type. `api_version` is the group and the version, such as `apps/v1`.
pub(super) fn resource_type(
    api_version: &str,
    kind: &str,
    plural: &str,
    namespaced: bool,
) -> Arc<ResourceType> {
    let GroupVersion { group, version, .. } = api_version
        .parse()
        .unwrap_or_else(|_| GroupVersion::gv("", api_version));
    Arc::new(ResourceType {
        api: ApiResource {
            group,
            version,
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        },
        namespaced,
    })
}
