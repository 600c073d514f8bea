//! The metric families of the controllers. All of them exist in karmada-controller-manager, except those whose names begin
//! with `berth_`.

use berth_api::cluster::ResourceList;
use berth_api::quantity::Quantity;
use berth_metrics::encoding::EncodeLabelSet;
use berth_metrics::{Counters, Gauges, Histograms, NoLabels, exponential, families};

use super::Outcome;

/// Upper bounds of the buckets for operations on the control plane and on members, in seconds.
const OPERATION: [f64; 12] = exponential(0.001, 2.0);
/// Upper bounds of the buckets for evictions, in seconds.
const EVICTION: [f64; 15] = exponential(0.001, 2.0);
/// Upper bounds of the buckets for collections of a status, in seconds. They are the defaults of Prometheus' Go client.
const COLLECTION: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// The label of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ResultLabels {
    pub(super) result: Outcome,
}

/// The labels of a write to an object in a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct WriteLabels {
    pub(super) result: Outcome,
    pub(super) apiversion: String,
    pub(super) kind: String,
    pub(super) member_cluster: String,
}

/// The labels of the creation of an object in a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CreationLabels {
    #[prometheus(flatten)]
    pub(super) write: WriteLabels,
    pub(super) recreate: bool,
}

/// The labels of an update of an object in a member.
#[expect(
    non_snake_case,
    reason = "the names of the fields are the names of the labels"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct UpdateLabels {
    #[prometheus(flatten)]
    pub(super) write: WriteLabels,
    pub(super) operationResult: &'static str,
}

/// The labels of a correction of drift.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DriftLabels {
    pub(super) apiversion: String,
    pub(super) kind: String,
    pub(super) member_cluster: String,
}

/// The labels of a limit of a FederatedResourceQuota.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct QuotaLabels {
    pub(super) quota_namespace: String,
    pub(super) name: String,
    pub(super) resource: String,
}

/// The label of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ClusterLabels {
    pub(super) member_cluster: String,
}

/// The label of an eviction queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct QueueLabels {
    pub(super) name: &'static str,
}

/// The labels of evictions from a queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct EvictionLabels {
    pub(super) name: &'static str,
    pub(super) result: Outcome,
}

/// The label of bindings whose old copies wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct MigrationLabels {
    pub(super) reason: &'static str,
}

/// The labels of rebalanced bindings.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RebalanceLabels {
    pub(super) cause: &'static str,
    pub(super) mode: &'static str,
}

/// The labels of resources that wait for their eviction.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct KindLabels {
    pub(super) member_cluster: String,
    pub(super) resource_kind: String,
}

/// The labels of a call of an interpreter webhook.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct WebhookLabels {
    pub(super) webhook: String,
    pub(super) operation: &'static str,
    pub(super) result: Outcome,
}

families! {
    /// The families about policies, bindings and Works.
    pub(super) struct PropagationFamilies {
        /// Time to find the policy of a template, in seconds.
        pub(super) policy_matches: Histograms<NoLabels> = "resource_match_policy_duration_seconds", OPERATION;
        /// Time to apply a policy to a template, in seconds.
        pub(super) policy_applications: Histograms<ResultLabels> = "resource_apply_policy_duration_seconds", OPERATION;
        /// Attempts to apply a policy to a template.
        pub(super) policy_attempts: Counters<ResultLabels> = "policy_apply_attempts_total";
        /// Attempts of a policy to preempt another policy.
        pub(super) preemptions: Counters<ResultLabels> = "policy_preemption_total";
        /// Time to write the Works of a binding, in seconds.
        pub(super) work_syncs: Histograms<ResultLabels> = "binding_sync_work_duration_seconds", OPERATION;
        /// Time to apply a Work to its member, in seconds.
        pub(super) workload_syncs: Histograms<ResultLabels> = "work_sync_workload_duration_seconds", OPERATION;
        /// Creations of objects in members; recreate is true for an object that was missing.
        pub(super) creations: Counters<CreationLabels> = "create_resource_to_cluster";
        /// Updates of objects in members.
        pub(super) updates: Counters<UpdateLabels> = "update_resource_to_cluster";
        /// Deletions of objects in members.
        pub(super) deletions: Counters<WriteLabels> = "delete_resource_from_cluster";
        /// Objects in members that another client had changed and that were set back.
        pub(super) drift_corrections: Counters<DriftLabels> = "berth_corrected_drift_total";
        /// Bindings whose old copies wait, by the reason of their condition Migrating.
        pub(super) migrating: Gauges<MigrationLabels> = "berth_migrating_bindings";
    }
}

families! {
    /// The families about clusters.
    pub(super) struct ClusterFamilies {
        /// 1 if the cluster is ready, else 0.
        pub(super) ready: Gauges<ClusterLabels> = "cluster_ready_state";
        /// Nodes of the cluster.
        pub(super) nodes: Gauges<ClusterLabels> = "cluster_node_number";
        /// Ready nodes of the cluster.
        pub(super) ready_nodes: Gauges<ClusterLabels> = "cluster_ready_node_number";
        /// Allocatable memory of the cluster, in bytes.
        allocatable_memory: Gauges<ClusterLabels> = "cluster_memory_allocatable_bytes";
        /// Allocatable CPUs of the cluster.
        allocatable_cpu: Gauges<ClusterLabels> = "cluster_cpu_allocatable_number";
        /// Allocatable pods of the cluster.
        allocatable_pods: Gauges<ClusterLabels> = "cluster_pod_allocatable_number";
        /// Allocated memory of the cluster, in bytes.
        allocated_memory: Gauges<ClusterLabels> = "cluster_memory_allocated_bytes";
        /// Allocated CPUs of the cluster.
        allocated_cpu: Gauges<ClusterLabels> = "cluster_cpu_allocated_number";
        /// Allocated pods of the cluster.
        allocated_pods: Gauges<ClusterLabels> = "cluster_pod_allocated_number";
        /// Time to collect the status of the cluster, in seconds.
        pub(super) collections: Histograms<ClusterLabels> = "cluster_sync_status_duration_seconds", COLLECTION;
    }
}

families! {
    /// The families about evictions.
    pub(super) struct EvictionFamilies {
        /// Bindings that wait for their eviction, by queue.
        pub(super) depth: Gauges<QueueLabels> = "eviction_queue_depth";
        /// Resources that wait for their eviction, by cluster and kind.
        pub(super) kinds: Gauges<KindLabels> = "eviction_kind_total";
        /// Time to process an eviction, by queue, in seconds.
        pub(super) latency: Histograms<QueueLabels> = "eviction_processing_latency_seconds", EVICTION;
        /// Processed evictions, by queue and result.
        pub(super) processed: Counters<EvictionLabels> = "eviction_processing_total";
        /// 1 while evictions from clusters that are not ready are paused or slow, else 0.
        pub(super) paused: Gauges<NoLabels> = "berth_evictions_paused";
        /// Bindings that were rebalanced, by cause and mode; in the mode dry-run, bindings that would have been.
        pub(super) rebalanced: Counters<RebalanceLabels> = "berth_rebalanced_bindings_total";
    }
}

families! {
    /// The families about FederatedResourceQuotas.
    pub(super) struct QuotaFamilies {
        /// Used share of a limit of a FederatedResourceQuota, from 0 to 1; above 1 after the limit was lowered.
        pub(super) used: Gauges<QuotaLabels> = "berth_federated_quota_used_ratio";
    }
}

families! {
    /// The families about calls of interpreter webhooks.
    pub(super) struct InterpreterFamilies {
        /// Time of a call of an interpreter webhook, in seconds.
        pub(super) webhooks: Histograms<WebhookLabels> = "berth_interpreter_webhook_duration_seconds", OPERATION;
    }
}

impl QuotaLabels {
    pub(super) fn new(quota: &(String, String), resource: &str) -> Self {
        let (namespace, name) = quota.clone();
        Self {
            quota_namespace: namespace,
            name,
            resource: resource.to_owned(),
        }
    }
}

impl ClusterLabels {
    pub(super) fn new(cluster: &str) -> Self {
        Self {
            member_cluster: cluster.to_owned(),
        }
    }
}

impl ClusterFamilies {
    /// Removes the samples of a cluster.
    pub(super) fn remove(&self, cluster: &ClusterLabels) {
        for (_, gauges) in self.allocatable().into_iter().chain(self.allocated()) {
            gauges.remove(cluster);
        }
        for gauges in [&self.ready, &self.nodes, &self.ready_nodes] {
            gauges.remove(cluster);
        }
        self.collections.remove(cluster);
    }

    /// Returns the gauges of the allocatable resources, each with the name of the resource.
    pub(super) fn allocatable(&self) -> [(&'static str, &Gauges<ClusterLabels>); 3] {
        [
            ("memory", &self.allocatable_memory),
            ("cpu", &self.allocatable_cpu),
            ("pods", &self.allocatable_pods),
        ]
    }

    /// Returns the gauges of the allocated resources, each with the name of the resource.
    pub(super) fn allocated(&self) -> [(&'static str, &Gauges<ClusterLabels>); 3] {
        [
            ("memory", &self.allocated_memory),
            ("cpu", &self.allocated_cpu),
            ("pods", &self.allocated_pods),
        ]
    }
}

/// Sets the resources of a cluster. As in Karmada, a cluster with an empty resource list keeps its samples.
pub(super) fn set_resources(
    families: [(&'static str, &Gauges<ClusterLabels>); 3],
    cluster: &ClusterLabels,
    resources: &ResourceList,
) {
    if resources.is_empty() {
        return;
    }
    for (resource, gauges) in families {
        let amount = resources.get(resource).map(|text| Quantity::parse(&text.0));
        let amount = match amount {
            Some(Ok(amount)) => amount.ratio(Quantity::from_integer(1)),
            Some(Err(_)) | None => 0.0,
        };
        gauges.get_or_create(cluster).set(amount);
    }
}
