//! The metric families of the controllers. All of them exist in karmada-controller-manager, except the family about
//! calls of interpreter webhooks.

use berth_api::cluster::ResourceList;
use berth_api::quantity::Quantity;
use berth_component_base::metrics::families::{Counters, Description, Gauges, Histograms};
use berth_component_base::metrics::histogram::exponential;

/// Upper bounds of the buckets for operations on the control plane and on members, in seconds.
static OPERATION: [f64; 12] = exponential(0.001, 2.0);
/// Upper bounds of the buckets for evictions, in seconds.
static EVICTION: [f64; 15] = exponential(0.001, 2.0);
/// Upper bounds of the buckets for collections of a status, in seconds. They are the defaults of Prometheus' Go client.
static COLLECTION: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// All metric families.
#[derive(Debug)]
pub(super) struct Families {
    pub(super) policy_matches: Histograms<0, 12>,
    pub(super) policy_applications: Histograms<1, 12>,
    pub(super) policy_attempts: Counters<1>,
    pub(super) preemptions: Counters<1>,
    pub(super) work_syncs: Histograms<1, 12>,
    pub(super) workload_syncs: Histograms<1, 12>,
    pub(super) creations: Counters<5>,
    pub(super) updates: Counters<5>,
    pub(super) deletions: Counters<4>,
    pub(super) clusters: ClusterFamilies,
    pub(super) evictions: EvictionFamilies,
    pub(super) interpreter_webhooks: Histograms<3, 12>,
}

/// The families about clusters.
#[derive(Debug)]
pub(super) struct ClusterFamilies {
    pub(super) ready: Gauges<1>,
    pub(super) nodes: Gauges<1>,
    pub(super) ready_nodes: Gauges<1>,
    pub(super) allocatable: ResourceFamilies,
    pub(super) allocated: ResourceFamilies,
    pub(super) collections: Histograms<1, 11>,
}

/// The families about one resource list of clusters, such as the allocatable resources.
#[derive(Debug)]
pub(super) struct ResourceFamilies {
    memory: Gauges<1>,
    cpu: Gauges<1>,
    pods: Gauges<1>,
}

/// The families about evictions.
#[derive(Debug)]
pub(super) struct EvictionFamilies {
    pub(super) depth: Gauges<1>,
    pub(super) kinds: Gauges<2>,
    pub(super) latency: Histograms<1, 15>,
    pub(super) processed: Counters<2>,
}

const fn described<const LABELS: usize>(
    name: &'static str,
    labels: [&'static str; LABELS],
    help: &'static str,
) -> Description<LABELS> {
    Description { name, labels, help }
}

impl Default for Families {
    fn default() -> Self {
        let member = "member_cluster";
        Self {
            policy_matches: Histograms::new(
                described(
                    "resource_match_policy_duration_seconds",
                    [],
                    "Time to find the policy of a template, in seconds.",
                ),
                &OPERATION,
            ),
            policy_applications: Histograms::new(
                described(
                    "resource_apply_policy_duration_seconds",
                    ["result"],
                    "Time to apply a policy to a template, in seconds.",
                ),
                &OPERATION,
            ),
            policy_attempts: Counters::new(described(
                "policy_apply_attempts_total",
                ["result"],
                "Attempts to apply a policy to a template.",
            )),
            preemptions: Counters::new(described(
                "policy_preemption_total",
                ["result"],
                "Attempts of a policy to preempt another policy.",
            )),
            work_syncs: Histograms::new(
                described(
                    "binding_sync_work_duration_seconds",
                    ["result"],
                    "Time to write the Works of a binding, in seconds.",
                ),
                &OPERATION,
            ),
            workload_syncs: Histograms::new(
                described(
                    "work_sync_workload_duration_seconds",
                    ["result"],
                    "Time to apply a Work to its member, in seconds.",
                ),
                &OPERATION,
            ),
            creations: Counters::new(described(
                "create_resource_to_cluster",
                ["result", "apiversion", "kind", member, "recreate"],
                "Creations of objects in members; recreate is true for an object that was missing.",
            )),
            updates: Counters::new(described(
                "update_resource_to_cluster",
                ["result", "apiversion", "kind", member, "operationResult"],
                "Updates of objects in members.",
            )),
            deletions: Counters::new(described(
                "delete_resource_from_cluster",
                ["result", "apiversion", "kind", member],
                "Deletions of objects in members.",
            )),
            clusters: ClusterFamilies::new(),
            evictions: EvictionFamilies::new(),
            interpreter_webhooks: Histograms::new(
                described(
                    "berth_interpreter_webhook_duration_seconds",
                    ["webhook", "operation", "result"],
                    "Time of a call of an interpreter webhook, in seconds.",
                ),
                &OPERATION,
            ),
        }
    }
}

impl Families {
    pub(super) fn encode(&self, out: &mut String) {
        self.policy_matches.encode(out);
        self.policy_applications.encode(out);
        self.policy_attempts.encode(out);
        self.preemptions.encode(out);
        self.work_syncs.encode(out);
        self.workload_syncs.encode(out);
        self.creations.encode(out);
        self.updates.encode(out);
        self.deletions.encode(out);
        self.clusters.encode(out);
        self.evictions.encode(out);
        self.interpreter_webhooks.encode(out);
    }
}

impl ClusterFamilies {
    fn new() -> Self {
        let gauge = |name, help| Gauges::new(described(name, ["member_cluster"], help));
        Self {
            ready: gauge("cluster_ready_state", "1 if the cluster is ready, else 0."),
            nodes: gauge("cluster_node_number", "Nodes of the cluster."),
            ready_nodes: gauge("cluster_ready_node_number", "Ready nodes of the cluster."),
            allocatable: ResourceFamilies {
                memory: gauge(
                    "cluster_memory_allocatable_bytes",
                    "Allocatable memory of the cluster, in bytes.",
                ),
                cpu: gauge(
                    "cluster_cpu_allocatable_number",
                    "Allocatable CPUs of the cluster.",
                ),
                pods: gauge(
                    "cluster_pod_allocatable_number",
                    "Allocatable pods of the cluster.",
                ),
            },
            allocated: ResourceFamilies {
                memory: gauge(
                    "cluster_memory_allocated_bytes",
                    "Allocated memory of the cluster, in bytes.",
                ),
                cpu: gauge(
                    "cluster_cpu_allocated_number",
                    "Allocated CPUs of the cluster.",
                ),
                pods: gauge(
                    "cluster_pod_allocated_number",
                    "Allocated pods of the cluster.",
                ),
            },
            collections: Histograms::new(
                described(
                    "cluster_sync_status_duration_seconds",
                    ["member_cluster"],
                    "Time to collect the status of the cluster, in seconds.",
                ),
                &COLLECTION,
            ),
        }
    }

    /// Removes the samples of a cluster.
    pub(super) fn remove(&self, cluster: &str) {
        for gauges in self.gauges() {
            gauges.remove(cluster);
        }
        self.collections.remove(cluster);
    }

    fn encode(&self, out: &mut String) {
        for gauges in self.gauges() {
            gauges.encode(out);
        }
        self.collections.encode(out);
    }

    fn gauges(&self) -> [&Gauges<1>; 9] {
        let (free, used) = (&self.allocatable, &self.allocated);
        [
            &self.ready,
            &self.nodes,
            &self.ready_nodes,
            &free.memory,
            &free.cpu,
            &free.pods,
            &used.memory,
            &used.cpu,
            &used.pods,
        ]
    }
}

impl ResourceFamilies {
    /// Sets the resources of a cluster. As in Karmada, a cluster with an empty resource list keeps its samples.
    pub(super) fn set(&self, cluster: &str, resources: &ResourceList) {
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
            gauges.set([cluster], amount);
        }
    }
}

impl EvictionFamilies {
    fn new() -> Self {
        Self {
            depth: Gauges::new(described(
                "eviction_queue_depth",
                ["name"],
                "Bindings that wait for their eviction, by queue.",
            )),
            kinds: Gauges::new(described(
                "eviction_kind_total",
                ["member_cluster", "resource_kind"],
                "Resources that wait for their eviction, by cluster and kind.",
            )),
            latency: Histograms::new(
                described(
                    "eviction_processing_latency_seconds",
                    ["name"],
                    "Time to process an eviction, by queue, in seconds.",
                ),
                &EVICTION,
            ),
            processed: Counters::new(described(
                "eviction_processing_total",
                ["name", "result"],
                "Processed evictions, by queue and result.",
            )),
        }
    }

    fn encode(&self, out: &mut String) {
        self.depth.encode(out);
        self.kinds.encode(out);
        self.latency.encode(out);
        self.processed.encode(out);
    }
}
