//! A scheduler with extenders, and bindings for its default profile.

use berth_api::ResourceBinding;
use berth_e2e::{BareControlPlane, SchedulerFixture, scheduler_fixture};
use berth_scheduler::framework::Registry;
use serde_json::{Value, json};

/// The name of the profile if the configuration names no profile.
const SCHEDULER: &str = "default-scheduler";

/// Starts a control plane with four clusters and a scheduler with these extenders.
pub(crate) async fn start(extenders: Value) -> SchedulerFixture {
    start_on(scheduler_fixture::four_clusters().await, extenders)
}

/// Starts a scheduler with these extenders on a running control plane.
pub(crate) fn start_on(bare: BareControlPlane, extenders: Value) -> SchedulerFixture {
    SchedulerFixture::start_on(bare, Registry::new(), json!({ "extenders": extenders }))
}

/// Returns a binding of a Deployment. Its placement selects all clusters.
pub(crate) fn to_all_clusters(name: &str) -> ResourceBinding {
    scheduler_fixture::to_all_clusters(name, SCHEDULER)
}

/// Returns a binding of a Deployment. Its placement selects one cluster, which is the cluster with the best score.
pub(crate) fn to_best_cluster(name: &str) -> ResourceBinding {
    scheduler_fixture::to_best_cluster(name, SCHEDULER)
}

/// Returns a binding of a ConfigMap. Its placement selects all clusters.
pub(crate) fn config_map(name: &str) -> ResourceBinding {
    scheduler_fixture::config_map_to_all_clusters(name, SCHEDULER)
}
