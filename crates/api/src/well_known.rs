//! Well-known labels, annotations, finalizers, namespaces and condition types of the Karmada API.

/// Label: the id of a PropagationPolicy, on the policy and on the objects that it claims.
pub const PROPAGATION_POLICY_PERMANENT_ID: &str = "propagationpolicy.karmada.io/permanent-id";
/// Label: the id of a ClusterPropagationPolicy, on the policy and on the objects that it claims.
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
/// Label of Works: the namespace of the FederatedResourceQuota that the Work belongs to.
pub const QUOTA_NAMESPACE: &str = "federatedresourcequota.karmada.io/namespace";
/// Label of Works: the name of the FederatedResourceQuota that the Work belongs to.
pub const QUOTA_NAME: &str = "federatedresourcequota.karmada.io/name";
/// Label of objects in member clusters, with the value [`MANAGED_VALUE`]: the control plane owns the object.
pub const MANAGED: &str = "karmada.io/managed";
/// The value of [`MANAGED`].
pub const MANAGED_VALUE: &str = "true";
/// Label of templates: with the value `true`, each member cluster keeps its own number of replicas.
pub const RETAIN_REPLICAS: &str = "resourcetemplate.karmada.io/retain-replicas";
/// Annotation: the namespace of the ResourceBinding that the object belongs to.
pub const RESOURCE_BINDING_NAMESPACE: &str = "resourcebinding.karmada.io/namespace";
/// Annotation: the name of the ResourceBinding that the object belongs to.
pub const RESOURCE_BINDING_NAME: &str = "resourcebinding.karmada.io/name";
/// Annotation: the name of the ClusterResourceBinding that the object belongs to.
pub const CLUSTER_RESOURCE_BINDING_NAME: &str = "clusterresourcebinding.karmada.io/name";
/// Annotation: the namespace of the Work that an object in a member cluster belongs to.
pub const WORK_NAMESPACE: &str = "work.karmada.io/namespace";
/// Annotation: the name of the Work that an object in a member cluster belongs to.
pub const WORK_NAME: &str = "work.karmada.io/name";
/// Annotation: `overwrite` or `abort`, the reaction to an object that already exists in a member cluster.
pub const CONFLICT_RESOLUTION: &str = "work.karmada.io/conflict-resolution";
/// Annotation of objects in member clusters, and label of the accounts there, specific to Berth: the id of the control
/// plane that owns the object, which is the UID of its namespace `kube-system`.
pub const CONTROL_PLANE: &str = "members.berth/control-plane";
/// Annotation of Clusters, specific to Berth: the name of the impersonator account in the member, if another control
/// plane owns the account with Karmada's name.
pub const IMPERSONATOR_ACCOUNT: &str = "members.berth/impersonator";
/// Annotation of templates, specific to Berth: with the value [`DRIFT_MODE_REPORT`], an object in a member that differs
/// from its manifest is reported and left unchanged.
pub const DRIFT_MODE: &str = "drift.berth/mode";
/// The value of [`DRIFT_MODE`] that turns the correction of drift off.
pub const DRIFT_MODE_REPORT: &str = "report";
/// Annotation: the UID of the resource template.
pub const TEMPLATE_UID: &str = "resourcetemplate.karmada.io/uid";
/// Annotation: the generation of the resource template.
pub const TEMPLATE_GENERATION: &str = "resourcetemplate.karmada.io/generation";
/// Annotation: the keys of the annotations that the control plane manages.
pub const MANAGED_ANNOTATIONS: &str = "resourcetemplate.karmada.io/managed-annotations";
/// Annotation: the keys of the labels that the control plane manages.
pub const MANAGED_LABELS: &str = "resourcetemplate.karmada.io/managed-labels";
/// Annotation of a Work: the applied OverridePolicies, as JSON.
pub const APPLIED_OVERRIDES: &str = "policy.karmada.io/applied-overrides";
/// Annotation of a Work: the applied ClusterOverridePolicies, as JSON.
pub const APPLIED_CLUSTER_OVERRIDES: &str = "policy.karmada.io/applied-cluster-overrides";
/// Label of bindings: another controller manages the binding, and the scheduler schedules the binding even without a
/// policy.
pub const BINDING_MANAGED_BY: &str = "binding.karmada.io/managed-by";
/// Label of templates: another controller owns the template, and the detector ignores the template.
pub const CLAIMED_BY: &str = "resourcetemplate.karmada.io/claimed-by";
/// Label: with the value `Always`, the object must not be deleted.
pub const DELETION_PROTECTED: &str = "resourcetemplate.karmada.io/deletion-protected";
/// Label of objects that belong to the Karmada system.
pub const SYSTEM: &str = "karmada.io/system";
/// The value of [`SYSTEM`].
pub const SYSTEM_VALUE: &str = "true";
/// Label of Namespaces: with the value `true`, the namespace is not synchronised to member clusters.
pub const SKIP_AUTO_PROPAGATION: &str = "namespace.karmada.io/skip-auto-propagation";
/// Annotation: the placement of the last scheduling decision, as canonical JSON.
pub const APPLIED_PLACEMENT: &str = "policy.karmada.io/applied-placement";
/// Annotation of policies and bindings, specific to Berth: the value `false` protects a binding from preemption.
pub const PREEMPTIBLE: &str = "scheduling.berth/preemptible";
/// Annotation of bindings, specific to Berth: the binding's annotation [`PREEMPTIBLE`] is a copy of the policy's
/// annotation. The copy is removed when the policy's annotation is removed.
pub const PREEMPTIBLE_COPIED: &str = "scheduling.berth/preemptible-copied";
/// Annotation of bindings and Works, specific to Berth: the trace of the change that produced the object, in the format
/// of the W3C header `traceparent`.
pub const TRACEPARENT: &str = "tracing.berth/traceparent";
/// Reason of events, eviction tasks and conditions of preempted bindings, specific to Berth.
pub const PREEMPTED: &str = "Preempted";
/// Annotation of templates and policies, specific to Berth: the maximum number of additional replicas while the workload
/// moves between clusters, or a percentage of the wanted number, such as `25%`.
pub const MAX_SURGE: &str = "migration.berth/max-surge";
/// Annotation of templates and policies, specific to Berth: the maximum number of replicas that move between clusters at
/// the same time, or a percentage of the wanted number, such as `25%`. If each cluster has all replicas, clusters are
/// counted instead.
pub const MAX_MOVING: &str = "migration.berth/max-moving";
/// Annotation of bindings, specific to Berth: the clusters from which the binding was evicted, separated by commas. It may
/// return to them when they are back.
pub const EVICTED_FROM: &str = "migration.berth/evicted-from";
/// Reason of the condition [`CONDITION_MIGRATING`]: new replicas are not ready yet.
pub const WAITING_FOR_REPLICAS: &str = "WaitingForReplicas";
/// Reason of the condition [`CONDITION_MIGRATING`]: no other copy is healthy, or no cluster fits.
pub const LAST_HEALTHY_COPY: &str = "LastHealthyCopy";
/// Reason of the condition [`CONDITION_MIGRATING`]: a workload that needs the resource has not left yet.
pub const WAITING_FOR_WORKLOAD: &str = "WaitingForWorkload";
/// Annotation of Clusters, specific to Berth: the nodes of the cluster by pool, as the JSON of
/// [`NodePools`](crate::node_pools::NodePools).
pub const NODE_POOLS: &str = "capacity.berth/node-pools";
/// Condition of Clusters, specific to Berth: evictions from clusters that are not ready are paused, because too many
/// clusters became not ready at the same time.
pub const CONDITION_EVICTIONS_PAUSED: &str = "EvictionsPaused";
/// Annotation of templates and policies, specific to Berth: limits on the replicas of each cluster, as JSON. The type is
/// [`ReplicaLimits`](crate::replica_limits::ReplicaLimits).
pub const REPLICA_LIMITS: &str = "scheduling.berth/replica-limits";
/// Annotation of bindings, specific to Berth: the value of [`REPLICA_LIMITS`] in the last scheduling decision.
pub const APPLIED_REPLICA_LIMITS: &str = "scheduling.berth/applied-replica-limits";
/// The annotations of a policy that limit its workloads. They are copied to the bindings.
pub const POLICY_LIMITS: [&str; 3] = [MAX_SURGE, MAX_MOVING, REPLICA_LIMITS];
/// Prefix of label keys on a binding. Each such label refers to another binding that depends on the labelled binding.
/// Its value is the permanent id of the dependent binding.
pub const DEPENDED_BY_PREFIX: &str = "resourcebinding.karmada.io/depended-by-";
/// Annotation: the dependencies of a binding, as a JSON array.
pub const DEPENDENCIES: &str = "resourcebinding.karmada.io/dependencies";

/// Taint key of cordoned clusters.
pub const UNSCHEDULABLE: &str = "cluster.karmada.io/unschedulable";

/// Finalizer of PropagationPolicies.
pub const PROPAGATION_POLICY_FINALIZER: &str = "karmada.io/propagation-policy-controller";
/// Finalizer of ClusterPropagationPolicies.
pub const CLUSTER_PROPAGATION_POLICY_FINALIZER: &str =
    "karmada.io/cluster-propagation-policy-controller";
/// Finalizer of ResourceBindings.
pub const BINDING_FINALIZER: &str = "karmada.io/binding-controller";
/// Finalizer of ResourceBindings that have dependencies.
pub const DEPENDENCIES_FINALIZER: &str = "karmada.io/binding-dependencies-distributor";
/// Finalizer of ClusterResourceBindings.
pub const CLUSTER_RESOURCE_BINDING_FINALIZER: &str =
    "karmada.io/cluster-resource-binding-controller";
/// Finalizer of Works.
pub const EXECUTION_FINALIZER: &str = "karmada.io/execution-controller";
/// Finalizer of Clusters.
pub const CLUSTER_FINALIZER: &str = "karmada.io/cluster-controller";

/// Namespace of the objects of the Karmada system.
pub const NAMESPACE_SYSTEM: &str = "karmada-system";
/// Namespace of the Secrets and Leases of member clusters.
pub const NAMESPACE_CLUSTER: &str = "karmada-cluster";
/// Prefix of execution namespaces.
pub const EXECUTION_SPACE_PREFIX: &str = "karmada-es-";

/// Name of the scheduler for bindings that do not specify a scheduler.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// Condition type of bindings: the last scheduling attempt succeeded.
pub const CONDITION_SCHEDULED: &str = "Scheduled";
/// Condition type of Works: the manifests were applied to the member cluster.
pub const CONDITION_APPLIED: &str = "Applied";
/// Condition type of Works, specific to Berth: an object in the member differs from its manifest, and [`DRIFT_MODE`]
/// prevents its correction.
pub const CONDITION_DRIFTED: &str = "Drifted";
/// Condition type of Works: the manifests are dispatched to the member cluster.
pub const CONDITION_DISPATCHING: &str = "Dispatching";
/// Condition type of Clusters: the API server of the cluster responds.
pub const CONDITION_READY: &str = "Ready";
/// Condition type of bindings: all Works were applied.
pub const CONDITION_FULLY_APPLIED: &str = "FullyApplied";
/// Condition type of bindings, specific to Berth: old copies wait until the new ones are ready.
pub const CONDITION_MIGRATING: &str = "Migrating";
/// Condition type of bindings and Works, specific to Berth: the workload works. In a binding, the condition is `Unknown` if
/// only clusters that are not ready may be to blame.
pub const CONDITION_HEALTHY: &str = "Healthy";
