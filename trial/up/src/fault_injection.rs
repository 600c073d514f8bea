//! The task of `berth up` that makes simulated members unreachable.
//!
//! The annotation [`FAULT_ANNOTATION`] of a Cluster makes the API server of the member unreachable. `berth fail`, kubectl
//! and a fleet file can set it. The simulated workloads of the member keep running. The controllers react in the same way
//! as for a real member: with the condition `Ready`, taints and evictions.

use std::collections::HashMap;

use berth_api::well_known::CONDITION_READY;
use berth_api::{Cluster, condition};
use berth_apiserver::Reachability;
use berth_component_base::list_watch;
use futures::TryStreamExt as _;
use kube::api::Api;
use kube::runtime::watcher::Event;
use kube::{Client, ResourceExt as _};
use tokio_util::sync::CancellationToken;

/// Annotation of a Cluster whose value [`UNREACHABLE`] makes the API server of the simulated member unreachable.
pub const FAULT_ANNOTATION: &str = "simulation.berth/fails";
/// Value of [`FAULT_ANNOTATION`].
pub const UNREACHABLE: &str = "unreachable";

/// Reports whether the manifest of a cluster contains the condition `Ready` with a status other than `True`.
pub fn is_described_as_not_ready(cluster: &Cluster) -> bool {
    let status = cluster.status.as_ref();
    let ready = status.and_then(|status| condition::find(&status.conditions, CONDITION_READY));
    ready.is_some_and(|ready| ready.status != "True")
}

/// Adds to a Cluster the annotation that makes its member unreachable.
pub fn annotate(cluster: &mut Cluster) {
    cluster
        .annotations_mut()
        .insert(FAULT_ANNOTATION.to_owned(), UNREACHABLE.to_owned());
}

/// Watches the Clusters until the token is cancelled, and makes each member reachable or unreachable, depending on the
/// annotation of its Cluster.
pub(crate) async fn run(
    client: Client,
    members: HashMap<String, Reachability>,
    cancel: CancellationToken,
) {
    let clusters: Api<Cluster> = Api::all(client);
    let mut events = list_watch::events(clusters, list_watch::Config::default());
    loop {
        let event = tokio::select! {
            () = cancel.cancelled() => return,
            event = events.try_next() => event,
        };
        match event {
            Ok(Some(Event::Apply(cluster) | Event::InitApply(cluster))) => {
                if let Some(member) = members.get(&cluster.name_any()) {
                    let fault = cluster.annotations().get(FAULT_ANNOTATION);
                    member.set(fault.is_none_or(|value| value != UNREACHABLE));
                }
            }
            Ok(None) => return,
            Ok(Some(Event::Init | Event::InitDone | Event::Delete(_))) | Err(_) => {}
        }
    }
}
