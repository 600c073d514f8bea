//! The report about one binding of the control plane, for a fleet that the caller watches. `berth explain` prints the
//! same report.

use berth_api::{Binding, BindingKey};
use berth_apimachinery::api_error::api_error_message;
use berth_engine::{Assumed, Fleet, WorkloadPeers};
use berth_explain::{Limits, Report};
use kube::Client;
use kube::api::Api;

use super::analysis::{case, with_stored_state};
use super::recorded_report::{SchedulerRecord, merge};
use crate::control_plane_lists;
use crate::scheduler_configuration::DecisionConfiguration;

/// Reads a binding from the control plane, and computes the decision about it, merged with the scheduler's record. Without
/// a record, `record` is the reason. The fleet must have the option [`Fleet::keeping_objects`]. `limits` are those of the
/// search for changes that would lead to another decision.
///
/// # Errors
/// Returns the reason why no report is possible.
pub async fn binding_report(
    client: &Client,
    configuration: &DecisionConfiguration,
    fleet: Fleet,
    key: &BindingKey,
    limits: Limits,
    record: SchedulerRecord,
) -> Result<Report, String> {
    let binding = read(client.clone(), key).await;
    let binding = binding.map_err(|error| api_error_message(&error))?;
    let mut fleet = fleet;
    let scores = control_plane_lists::scores(client).await;
    for score in scores.map_err(|error| error.to_string())? {
        fleet.apply_score(&score.normalized());
    }
    let configuration = configuration.clone();
    let decided = tokio::task::spawn_blocking(move || {
        let now = decide(&binding, &fleet, &limits, &configuration)?;
        Ok(merge(now, &binding, None, record.decision))
    });
    decided.await.map_err(|error| error.to_string())?
}

async fn read(client: Client, key: &BindingKey) -> Result<Binding, kube::Error> {
    if let Some(namespace) = &key.namespace {
        let api = Api::<berth_api::ResourceBinding>::namespaced(client, namespace);
        api.get(&key.name).await.map(Binding::from)
    } else {
        let api = Api::<berth_api::ClusterResourceBinding>::all(client);
        api.get(&key.name).await.map(Binding::from)
    }
}

fn decide(
    binding: &Binding,
    fleet: &Fleet,
    limits: &Limits,
    configuration: &DecisionConfiguration,
) -> Result<Report, String> {
    let engines = configuration.engines(Vec::new());
    let mut engines = engines.map_err(|error| error.to_string())?;
    let omitted = engines.omitted().to_vec();
    let Some(engine) = engines.of(binding) else {
        let (name, origin) = (binding.spec.scheduler(), configuration.origin());
        let origin = origin.unwrap_or("the configuration");
        return Err(format!("{origin} has no profile named {name}"));
    };
    let assumed = Assumed::default();
    let case = case(binding, fleet, WorkloadPeers::default(), &assumed);
    let report = berth_explain::explain(engine, &case, limits);
    let report = report.map_err(|error| error.to_string())?;
    let snapshot = fleet.clone().snapshot();
    let mut report = with_stored_state(report, binding, |name| {
        let cluster = snapshot.cluster(snapshot.ordinal(name)?)?;
        cluster.object().cloned()
    });
    let omitted = omitted.into_iter();
    report
        .notes
        .extend(omitted.map(|part| format!("not recomputed: {part}")));
    Ok(report)
}
