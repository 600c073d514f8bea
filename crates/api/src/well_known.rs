//! Labels, annotations, finalizers and namespaces of the Karmada API, as exact strings.

/// Label: the id of the PropagationPolicy that claims the object.
pub const PROPAGATION_POLICY_PERMANENT_ID: &str = "propagationpolicy.karmada.io/permanent-id";
/// Label: the id of the ClusterPropagationPolicy that claims the object.
pub const CLUSTER_PROPAGATION_POLICY_PERMANENT_ID: &str =
    "clusterpropagationpolicy.karmada.io/permanent-id";
/// Annotation: the namespace of the claiming PropagationPolicy.
pub const PROPAGATION_POLICY_NAMESPACE: &str = "propagationpolicy.karmada.io/namespace";
/// Annotation: the name of the claiming PropagationPolicy.
pub const PROPAGATION_POLICY_NAME: &str = "propagationpolicy.karmada.io/name";
/// Annotation: the name of the claiming ClusterPropagationPolicy.
pub const CLUSTER_PROPAGATION_POLICY_NAME: &str = "clusterpropagationpolicy.karmada.io/name";
/// Label: the id of a ResourceBinding.
pub const RESOURCE_BINDING_PERMANENT_ID: &str = "resourcebinding.karmada.io/permanent-id";
/// Label: the id of a ClusterResourceBinding.
pub const CLUSTER_RESOURCE_BINDING_PERMANENT_ID: &str =
    "clusterresourcebinding.karmada.io/permanent-id";
/// Label: the id of a Work.
pub const WORK_PERMANENT_ID: &str = "work.karmada.io/permanent-id";
/// Label on a member's object, with the value [`MANAGED_VALUE`]: it came from the control plane, and may be changed and
/// deleted from there.
pub const MANAGED: &str = "karmada.io/managed";
/// The value of [`MANAGED`].
pub const MANAGED_VALUE: &str = "true";
/// Label: with the value `true`, the member's number of replicas stays.
pub const RETAIN_REPLICAS: &str = "resourcetemplate.karmada.io/retain-replicas";
/// Annotation: the namespace of the ResourceBinding that something belongs to.
pub const RESOURCE_BINDING_NAMESPACE: &str = "resourcebinding.karmada.io/namespace";
/// Annotation: the name of the ResourceBinding that something belongs to.
pub const RESOURCE_BINDING_NAME: &str = "resourcebinding.karmada.io/name";
/// Annotation: the name of the ClusterResourceBinding that something belongs to.
pub const CLUSTER_RESOURCE_BINDING_NAME: &str = "clusterresourcebinding.karmada.io/name";
/// Annotation: the namespace of the Work that an object in a member came from.
pub const WORK_NAMESPACE: &str = "work.karmada.io/namespace";
/// Annotation: the name of the Work that an object in a member came from.
pub const WORK_NAME: &str = "work.karmada.io/name";
/// Annotation: `overwrite` or `abort`, for an object that the member has already.
pub const CONFLICT_RESOLUTION: &str = "work.karmada.io/conflict-resolution";
/// Annotation: the UID of the resource template.
pub const TEMPLATE_UID: &str = "resourcetemplate.karmada.io/uid";
/// Annotation: the generation of the resource template.
pub const TEMPLATE_GENERATION: &str = "resourcetemplate.karmada.io/generation";
/// Annotation: the keys of the annotations that came from the control plane.
pub const MANAGED_ANNOTATIONS: &str = "resourcetemplate.karmada.io/managed-annotations";
/// Annotation: the keys of the labels that came from the control plane.
pub const MANAGED_LABELS: &str = "resourcetemplate.karmada.io/managed-labels";
/// Annotation of a Work: the OverridePolicies that were applied, as JSON.
pub const APPLIED_OVERRIDES: &str = "policy.karmada.io/applied-overrides";
/// Annotation of a Work: the ClusterOverridePolicies that were applied, as JSON.
pub const APPLIED_CLUSTER_OVERRIDES: &str = "policy.karmada.io/applied-cluster-overrides";
/// Label: the binding is made by another controller, which lets the scheduler take it without a policy.
pub const BINDING_MANAGED_BY: &str = "binding.karmada.io/managed-by";
/// Label: another controller owns the template; the detector leaves it alone.
pub const CLAIMED_BY: &str = "resourcetemplate.karmada.io/claimed-by";
/// Label: with the value `Always`, the object cannot be deleted.
pub const DELETION_PROTECTED: &str = "resourcetemplate.karmada.io/deletion-protected";
/// Label: an object of the system.
pub const SYSTEM: &str = "karmada.io/system";
/// The value of [`SYSTEM`].
pub const SYSTEM_VALUE: &str = "true";
/// Label on a Namespace: with the value `true`, it is not synchronised to members.
pub const SKIP_AUTO_PROPAGATION: &str = "namespace.karmada.io/skip-auto-propagation";
/// Annotation: the placement that the scheduler used last, as canonical JSON.
pub const APPLIED_PLACEMENT: &str = "policy.karmada.io/applied-placement";
/// Annotation of a policy or a binding, which Karmada does not have: with the value `false`, no binding of a
/// higher priority takes the room of this one.
pub const PREEMPTIBLE: &str = "scheduling.berth/preemptible";
/// Annotation of a binding, which Karmada does not have: its [`PREEMPTIBLE`] was copied from its policy, and goes
/// with the policy's.
pub const PREEMPTIBLE_COPIED: &str = "scheduling.berth/preemptible-copied";
/// The beginning of the keys of labels that name the bindings which an attached one follows; the value is their
/// permanent id.
pub const DEPENDED_BY_PREFIX: &str = "resourcebinding.karmada.io/depended-by-";
/// Annotation: the dependencies of a binding, as a JSON array.
pub const DEPENDENCIES: &str = "resourcebinding.karmada.io/dependencies";

/// The key of the taint of a cordoned cluster.
pub const UNSCHEDULABLE: &str = "cluster.karmada.io/unschedulable";

/// Finalizer of PropagationPolicies.
pub const PROPAGATION_POLICY_FINALIZER: &str = "karmada.io/propagation-policy-controller";
/// Finalizer of ClusterPropagationPolicies.
pub const CLUSTER_PROPAGATION_POLICY_FINALIZER: &str =
    "karmada.io/cluster-propagation-policy-controller";
/// Finalizer of ResourceBindings.
pub const BINDING_FINALIZER: &str = "karmada.io/binding-controller";
/// Finalizer of ResourceBindings that others follow.
pub const DEPENDENCIES_FINALIZER: &str = "karmada.io/binding-dependencies-distributor";
/// Finalizer of ClusterResourceBindings.
pub const CLUSTER_RESOURCE_BINDING_FINALIZER: &str =
    "karmada.io/cluster-resource-binding-controller";
/// Finalizer of Works.
pub const EXECUTION_FINALIZER: &str = "karmada.io/execution-controller";
/// Finalizer of Clusters.
pub const CLUSTER_FINALIZER: &str = "karmada.io/cluster-controller";

/// The namespace of the system's own objects.
pub const NAMESPACE_SYSTEM: &str = "karmada-system";
/// The namespace of the members' secrets and leases.
pub const NAMESPACE_CLUSTER: &str = "karmada-cluster";
/// The prefix of the execution namespaces.
pub const EXECUTION_SPACE_PREFIX: &str = "karmada-es-";

/// The scheduler that takes bindings which name none.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// Condition type of bindings: whether they were scheduled.
pub const CONDITION_SCHEDULED: &str = "Scheduled";
/// Condition type of Works: whether the member has what they say.
pub const CONDITION_APPLIED: &str = "Applied";
/// Condition type of Works: whether they are sent to the member.
pub const CONDITION_DISPATCHING: &str = "Dispatching";
/// Condition type of Clusters: whether they answer.
pub const CONDITION_READY: &str = "Ready";
/// Condition type of bindings: whether all their works were applied.
pub const CONDITION_FULLY_APPLIED: &str = "FullyApplied";
