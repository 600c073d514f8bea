//! The types of the resources that the simulation reads without a lookup: Karmada's own resources and ConfigMaps.

use std::sync::Arc;

use berth_api::{
    BindingKind, Cluster, ClusterOverridePolicy, ClusterPropagationPolicy, ClusterResourceBinding,
    ClusterScore, FederatedResourceQuota, OverridePolicy, PropagationPolicy, ResourceBinding,
    ResourceInterpreterCustomization, ResourceInterpreterWebhookConfiguration, WorkloadRebalancer,
};
use berth_controllers::detector::claim::PolicyKind;
use berth_controllers::resource_type::ResourceType;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Resource;
use kube::core::{ApiResource, ClusterResourceScope, GroupVersion, NamespaceResourceScope};

/// Returns the type of Clusters.
pub(crate) fn clusters() -> Arc<ResourceType> {
    cluster_scoped::<Cluster>()
}

/// Returns the type of ConfigMaps.
pub(crate) fn config_maps() -> Arc<ResourceType> {
    namespaced::<ConfigMap>()
}

/// Returns the type of PropagationPolicies or ClusterPropagationPolicies.
pub(crate) fn policies(kind: PolicyKind) -> Arc<ResourceType> {
    match kind {
        PolicyKind::Namespaced => namespaced::<PropagationPolicy>(),
        PolicyKind::Cluster => cluster_scoped::<ClusterPropagationPolicy>(),
    }
}

/// Returns the type of OverridePolicies or ClusterOverridePolicies.
pub(crate) fn overrides(kind: PolicyKind) -> Arc<ResourceType> {
    match kind {
        PolicyKind::Namespaced => namespaced::<OverridePolicy>(),
        PolicyKind::Cluster => cluster_scoped::<ClusterOverridePolicy>(),
    }
}

/// Returns the type of WorkloadRebalancers.
pub(crate) fn rebalancers() -> Arc<ResourceType> {
    cluster_scoped::<WorkloadRebalancer>()
}

/// Returns the type of FederatedResourceQuotas.
pub(crate) fn quotas() -> Arc<ResourceType> {
    namespaced::<FederatedResourceQuota>()
}

/// Returns the type of ClusterScores.
pub(crate) fn scores() -> Arc<ResourceType> {
    cluster_scoped::<ClusterScore>()
}

/// Returns the type of ResourceInterpreterCustomizations.
pub(crate) fn customizations() -> Arc<ResourceType> {
    cluster_scoped::<ResourceInterpreterCustomization>()
}

/// Returns the type of ResourceInterpreterWebhookConfigurations.
pub(crate) fn interpreter_webhooks() -> Arc<ResourceType> {
    cluster_scoped::<ResourceInterpreterWebhookConfiguration>()
}

/// Returns the type of ResourceBindings or ClusterResourceBindings.
pub(crate) fn bindings(kind: BindingKind) -> Arc<ResourceType> {
    match kind {
        BindingKind::Namespaced => namespaced::<ResourceBinding>(),
        BindingKind::Cluster => cluster_scoped::<ClusterResourceBinding>(),
    }
}

fn namespaced<K>() -> Arc<ResourceType>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Arc::new(ResourceType {
        api: ApiResource::erase::<K>(&()),
        namespaced: true,
    })
}

fn cluster_scoped<K>() -> Arc<ResourceType>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
{
    Arc::new(ResourceType {
        api: ApiResource::erase::<K>(&()),
        namespaced: false,
    })
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
