//! The metric families of the controllers. All of them exist in karmada-controller-manager, except the family about
//! calls of interpreter webhooks.

use berth_api::cluster::ResourceList;
use berth_api::quantity::Quantity;
use berth_metrics::encoding::EncodeLabelSet;
use berth_metrics::{Counter, Family, FloatGauge, Histogram, NoLabels, Registry, exponential};

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

/// All metric families.
#[derive(Debug)]
pub(super) struct Families {
    pub(super) policy_matches: Family<NoLabels, Histogram>,
    pub(super) policy_applications: Family<ResultLabels, Histogram>,
    pub(super) policy_attempts: Family<ResultLabels, Counter>,
    pub(super) preemptions: Family<ResultLabels, Counter>,
    pub(super) work_syncs: Family<ResultLabels, Histogram>,
    pub(super) workload_syncs: Family<ResultLabels, Histogram>,
    pub(super) creations: Family<CreationLabels, Counter>,
    pub(super) updates: Family<UpdateLabels, Counter>,
    pub(super) deletions: Family<WriteLabels, Counter>,
    pub(super) clusters: ClusterFamilies,
    pub(super) evictions: EvictionFamilies,
    pub(super) interpreter_webhooks: Family<WebhookLabels, Histogram>,
}

/// Gauges with one series for each cluster.
type ClusterGauges = Family<ClusterLabels, FloatGauge>;

/// The families about clusters.
#[derive(Debug)]
pub(super) struct ClusterFamilies {
    pub(super) ready: ClusterGauges,
    pub(super) nodes: ClusterGauges,
    pub(super) ready_nodes: ClusterGauges,
    pub(super) allocatable: ResourceFamilies,
    pub(super) allocated: ResourceFamilies,
    pub(super) collections: Family<ClusterLabels, Histogram>,
}

/// The families about one resource list of clusters, such as the allocatable resources.
#[derive(Debug, Default)]
pub(super) struct ResourceFamilies {
    memory: ClusterGauges,
    cpu: ClusterGauges,
    pods: ClusterGauges,
}

/// The families about evictions.
#[derive(Debug)]
pub(super) struct EvictionFamilies {
    pub(super) depth: Family<QueueLabels, FloatGauge>,
    pub(super) kinds: Family<KindLabels, FloatGauge>,
    pub(super) latency: Family<QueueLabels, Histogram>,
    pub(super) processed: Family<EvictionLabels, Counter>,
}

impl Default for Families {
    fn default() -> Self {
        let operation = || Histogram::new(OPERATION);
        Self {
            policy_matches: Family::new_with_constructor(operation),
            policy_applications: Family::new_with_constructor(operation),
            policy_attempts: Family::default(),
            preemptions: Family::default(),
            work_syncs: Family::new_with_constructor(operation),
            workload_syncs: Family::new_with_constructor(operation),
            creations: Family::default(),
            updates: Family::default(),
            deletions: Family::default(),
            clusters: ClusterFamilies::default(),
            evictions: EvictionFamilies::default(),
            interpreter_webhooks: Family::new_with_constructor(operation),
        }
    }
}

impl Families {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "resource_match_policy_duration_seconds",
            "Time to find the policy of a template, in seconds.",
            self.policy_matches.clone(),
        );
        registry.register(
            "resource_apply_policy_duration_seconds",
            "Time to apply a policy to a template, in seconds.",
            self.policy_applications.clone(),
        );
        registry.register(
            "policy_apply_attempts_total",
            "Attempts to apply a policy to a template.",
            self.policy_attempts.clone(),
        );
        registry.register(
            "policy_preemption_total",
            "Attempts of a policy to preempt another policy.",
            self.preemptions.clone(),
        );
        registry.register(
            "binding_sync_work_duration_seconds",
            "Time to write the Works of a binding, in seconds.",
            self.work_syncs.clone(),
        );
        registry.register(
            "work_sync_workload_duration_seconds",
            "Time to apply a Work to its member, in seconds.",
            self.workload_syncs.clone(),
        );
        registry.register(
            "create_resource_to_cluster",
            "Creations of objects in members; recreate is true for an object that was missing.",
            self.creations.clone(),
        );
        registry.register(
            "update_resource_to_cluster",
            "Updates of objects in members.",
            self.updates.clone(),
        );
        registry.register(
            "delete_resource_from_cluster",
            "Deletions of objects in members.",
            self.deletions.clone(),
        );
        self.clusters.register(registry);
        self.evictions.register(registry);
        registry.register(
            "berth_interpreter_webhook_duration_seconds",
            "Time of a call of an interpreter webhook, in seconds.",
            self.interpreter_webhooks.clone(),
        );
    }
}

impl ClusterLabels {
    pub(super) fn new(cluster: &str) -> Self {
        Self {
            member_cluster: cluster.to_owned(),
        }
    }
}

impl Default for ClusterFamilies {
    fn default() -> Self {
        Self {
            ready: Family::default(),
            nodes: Family::default(),
            ready_nodes: Family::default(),
            allocatable: ResourceFamilies::default(),
            allocated: ResourceFamilies::default(),
            collections: Family::new_with_constructor(|| Histogram::new(COLLECTION)),
        }
    }
}

impl ClusterFamilies {
    /// Removes the samples of a cluster.
    pub(super) fn remove(&self, cluster: &str) {
        let labels = ClusterLabels::new(cluster);
        for (_, _, gauges) in self.gauges() {
            gauges.remove(&labels);
        }
        self.collections.remove(&labels);
    }

    fn register(&self, registry: &mut Registry) {
        for (name, help, gauges) in self.gauges() {
            registry.register(name, help, gauges.clone());
        }
        registry.register(
            "cluster_sync_status_duration_seconds",
            "Time to collect the status of the cluster, in seconds.",
            self.collections.clone(),
        );
    }

    /// Returns the gauges with their names and help texts.
    fn gauges(&self) -> [(&'static str, &'static str, &ClusterGauges); 9] {
        let (free, used) = (&self.allocatable, &self.allocated);
        [
            (
                "cluster_ready_state",
                "1 if the cluster is ready, else 0.",
                &self.ready,
            ),
            ("cluster_node_number", "Nodes of the cluster.", &self.nodes),
            (
                "cluster_ready_node_number",
                "Ready nodes of the cluster.",
                &self.ready_nodes,
            ),
            (
                "cluster_memory_allocatable_bytes",
                "Allocatable memory of the cluster, in bytes.",
                &free.memory,
            ),
            (
                "cluster_cpu_allocatable_number",
                "Allocatable CPUs of the cluster.",
                &free.cpu,
            ),
            (
                "cluster_pod_allocatable_number",
                "Allocatable pods of the cluster.",
                &free.pods,
            ),
            (
                "cluster_memory_allocated_bytes",
                "Allocated memory of the cluster, in bytes.",
                &used.memory,
            ),
            (
                "cluster_cpu_allocated_number",
                "Allocated CPUs of the cluster.",
                &used.cpu,
            ),
            (
                "cluster_pod_allocated_number",
                "Allocated pods of the cluster.",
                &used.pods,
            ),
        ]
    }
}

impl ResourceFamilies {
    /// Sets the resources of a cluster. As in Karmada, a cluster with an empty resource list keeps its samples.
    pub(super) fn set(&self, cluster: &ClusterLabels, resources: &ResourceList) {
        if resources.is_empty() {
            return;
        }
        for (gauges, resource) in [
            (&self.memory, "memory"),
            (&self.cpu, "cpu"),
            (&self.pods, "pods"),
        ] {
            let amount = resources.get(resource).map(|text| Quantity::parse(&text.0));
            let amount = match amount {
                Some(Ok(amount)) => amount.ratio(Quantity::from_integer(1)),
                Some(Err(_)) | None => 0.0,
            };
            gauges.get_or_create(cluster).set(amount);
        }
    }
}

impl Default for EvictionFamilies {
    fn default() -> Self {
        Self {
            depth: Family::default(),
            kinds: Family::default(),
            latency: Family::new_with_constructor(|| Histogram::new(EVICTION)),
            processed: Family::default(),
        }
    }
}

impl EvictionFamilies {
    fn register(&self, registry: &mut Registry) {
        registry.register(
            "eviction_queue_depth",
            "Bindings that wait for their eviction, by queue.",
            self.depth.clone(),
        );
        registry.register(
            "eviction_kind_total",
            "Resources that wait for their eviction, by cluster and kind.",
            self.kinds.clone(),
        );
        registry.register(
            "eviction_processing_latency_seconds",
            "Time to process an eviction, by queue, in seconds.",
            self.latency.clone(),
        );
        registry.register(
            "eviction_processing_total",
            "Processed evictions, by queue and result.",
            self.processed.clone(),
        );
    }
}
