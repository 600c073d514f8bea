//! Names of the store's tables that the server itself reads or writes.

pub(crate) const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
pub(crate) const CLUSTER_ROLE_BINDINGS: &str = "clusterrolebindings.rbac.authorization.k8s.io";
pub(crate) const CONFIG_MAPS: &str = "configmaps";
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
pub(crate) const DISRUPTION_BUDGETS: &str = "poddisruptionbudgets.policy";
pub(crate) const ENDPOINTS: &str = "endpoints";
pub(crate) const ENDPOINT_SLICES: &str = "endpointslices.discovery.k8s.io";
pub(crate) const EVENTS: &str = "events";
pub(crate) const JOBS: &str = "jobs.batch";
pub(crate) const LIMIT_RANGES: &str = "limitranges";
pub(crate) const MUTATING_WEBHOOKS: &str =
    "mutatingwebhookconfigurations.admissionregistration.k8s.io";
pub(crate) const NAMESPACES: &str = "namespaces";
pub(crate) const NODES: &str = "nodes";
pub(crate) const PODS: &str = "pods";
pub(crate) const PRIORITY_CLASSES: &str = "priorityclasses.scheduling.k8s.io";
pub(crate) const ROLES: &str = "roles.rbac.authorization.k8s.io";
pub(crate) const ROLE_BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";
pub(crate) const QUOTAS: &str = "resourcequotas";
pub(crate) const SECRETS: &str = "secrets";
pub(crate) const SERVICES: &str = "services";
pub(crate) const SERVICE_ACCOUNTS: &str = "serviceaccounts";
pub(crate) const STORAGE_CLASSES: &str = "storageclasses.storage.k8s.io";
pub(crate) const VALIDATING_WEBHOOKS: &str =
    "validatingwebhookconfigurations.admissionregistration.k8s.io";
