//! The load scenario `side-by-side`: sets of programs propagate the same Deployments to the same simulated members, in
//! turns. Each turn has a new kube-apiserver and etcd.
//!
//! A *side* is a set of programs that complete a control plane: a scheduler, controllers, or both. The generator brings
//! everything else, which is the same for all sides: the members in a process of their own, the definitions, the
//! admission webhooks, and the load.

mod api_requests;
mod control_plane;
mod program;
mod table;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use berth_api::well_known::CONDITION_FULLY_APPLIED;
use berth_api::{Cluster, ResourceBinding, condition};
use clap::Args;
use futures::{StreamExt as _, stream};
use kube::api::{Api, ListParams};

use self::api_requests::ApiRequests;
use self::control_plane::ControlPlane;
pub use self::program::Program;
use self::program::RunningProgram;
use self::table::Table;
use super::propagation::{self, COPIES};
use super::requests::{read_body, send};
use super::up_process::{UpProcess, has_ready_condition};
use super::{LoadError, millis, percentile, seconds, watch};
use crate::kube_apiserver::KubeApiserver;

/// Number of connections that create Deployments.
const CREATORS: usize = 8;
/// Time limit until the clusters are ready.
const READY: Duration = Duration::from_mins(3);
/// Pause between the policies and the first Deployment, so that controllers know the policies.
const POLICIES_KNOWN: Duration = Duration::from_secs(3);
/// Pause after the last Deployment is applied. Requests in this time count, too: statuses and Events follow.
const SETTLED: Duration = Duration::from_secs(5);

/// Options of the scenario. `KUBEBUILDER_ASSETS` names the folder of kube-apiserver and etcd.
#[derive(Args, Clone, Debug)]
pub struct SideBySide {
    /// Program of a side, as SIDE=COMMAND. Repeat the option for each program. Sides take turns in the order in which
    /// they are named first. {kubeconfig} in a command is replaced by the path of a kubeconfig with all rights
    #[arg(long = "program", value_name = "SIDE=COMMAND", required = true)]
    pub programs: Vec<Program>,
    /// Number of turns of each side
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    pub rounds: u16,
    /// Number of members
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(3..))]
    pub members: u16,
    /// Number of Deployments. Each has three replicas in three members
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    pub deployments: u32,
    /// Seconds to wait for the Deployments of a turn. The table counts those that are not applied then
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    pub timeout: u32,
}

/// The figures of one turn of a side.
struct Turn {
    applied: usize,
    took: Duration,
    /// Sorted times from the creation of a Deployment until it is FullyApplied in all members.
    latencies: Vec<Duration>,
    processor: Duration,
    peak_mib: u64,
    requests: ApiRequests,
}

/// Runs the scenario and returns its table.
///
/// # Errors
/// If a step fails. Deployments that are not applied in time are no failure: the table counts them.
pub async fn side_by_side(load: &SideBySide) -> Result<String, LoadError> {
    let assets = KubeApiserver::assets().ok_or_else(|| {
        let what = "set KUBEBUILDER_ASSETS to a folder with kube-apiserver and etcd";
        LoadError::Unexpected(what.to_owned())
    })?;
    let mut sides: Vec<(&str, Vec<&Program>)> = Vec::new();
    for program in &load.programs {
        match sides.iter_mut().find(|(side, _)| *side == program.side) {
            Some((_, programs)) => programs.push(program),
            None => sides.push((&program.side, vec![program])),
        }
    }
    let mut table = Table::new(load);
    for round in 1..=load.rounds {
        for (side, programs) in &sides {
            eprintln!("round {round} of {}: {side}", load.rounds);
            let plane = ControlPlane::start(&assets).await?;
            let turn = run_turn(load, &plane, programs).await?;
            table.add(side, &turn);
        }
    }
    Ok(table.to_string())
}

/// Runs the programs of a side on a new control plane, in these phases:
async fn run_turn(
    load: &SideBySide,
    plane: &ControlPlane,
    programs: &[&Program],
) -> Result<Turn, LoadError> {
    // 1. The members, the programs, and the registration of the members. The load starts when the clusters are ready,
    //    so that no side is measured while it starts.
    let members = usize::from(load.members);
    let fleet = UpProcess::members_only(members).await?;
    let running = programs.iter().map(|program| program.start(plane));
    let mut running = running.collect::<Result<Vec<RunningProgram>, _>>()?;
    for number in 1..=members {
        plane.join(&fleet, number).await?;
    }
    wait_until_ready(plane, &mut running, members).await?;
    // 2. The policies, as objects that exist long before.
    for policy in propagation::policies(members) {
        read_body(send(plane.client(), &policy).await?).await?;
    }
    tokio::time::sleep(POLICIES_KNOWN).await;
    // 3. The measured part: all Deployments at once, until each is applied.
    let before = ApiRequests::read(plane.client()).await?;
    let processor: Duration = running.iter().map(RunningProgram::processor_time).sum();
    let began = Instant::now();
    let count = usize::try_from(load.deployments).unwrap_or(usize::MAX);
    let limit = Duration::from_secs(load.timeout.into());
    let watching = applied_times(plane, count, limit);
    let (created, applied) = tokio::join!(create_all(plane, count, members), watching);
    let (created, took) = (created?, began.elapsed());
    // 4. The requests and the processor time that follow.
    tokio::time::sleep(SETTLED).await;
    for program in &mut running {
        program.check_running()?;
    }
    let used: Duration = running.iter().map(RunningProgram::processor_time).sum();
    let requests = ApiRequests::read(plane.client()).await?.since(&before);
    let mut latencies: Vec<Duration> = applied
        .iter()
        .filter_map(|(name, at)| Some(at.saturating_duration_since(*created.get(name)?)))
        .collect();
    latencies.sort_unstable();
    Ok(Turn {
        applied: applied.len(),
        took,
        latencies,
        processor: used.saturating_sub(processor),
        peak_mib: running.iter().map(RunningProgram::peak_mib).sum(),
        requests,
    })
}

async fn wait_until_ready(
    plane: &ControlPlane,
    programs: &mut [RunningProgram],
    members: usize,
) -> Result<(), LoadError> {
    let clusters: Api<Cluster> = Api::all(plane.client().clone());
    let began = Instant::now();
    loop {
        for program in &mut *programs {
            program.check_running()?;
        }
        let listed = clusters.list(&ListParams::default()).await?;
        if listed.iter().filter(|of| has_ready_condition(of)).count() == members {
            return Ok(());
        }
        if began.elapsed() > READY {
            return Err(LoadError::Timeout {
                what: "waiting until the programs report all clusters as ready".to_owned(),
                limit: READY,
            });
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Creates the Deployments. Returns the time at which each request was sent, by the name of the Deployment.
async fn create_all(
    plane: &ControlPlane,
    count: usize,
    members: usize,
) -> Result<BTreeMap<String, Instant>, LoadError> {
    let all = propagation::deployments(count, members);
    let sending = all.iter().enumerate().map(async |(index, wanted)| {
        let sent = Instant::now();
        read_body(send(plane.client(), wanted).await?).await?;
        Ok::<_, LoadError>((propagation::name(index), sent))
    });
    let mut sending = stream::iter(sending).buffer_unordered(CREATORS);
    let mut times = BTreeMap::new();
    while let Some(sent) = sending.next().await {
        let (name, sent) = sent?;
        times.insert(name, sent);
    }
    Ok(times)
}

/// Waits until this number of bindings is FullyApplied in all members, or until the time limit. Returns the times by
/// the names of the Deployments.
async fn applied_times(
    plane: &ControlPlane,
    count: usize,
    limit: Duration,
) -> BTreeMap<String, Instant> {
    let bindings: Api<ResourceBinding> = Api::default_namespaced(plane.client().clone());
    let mut changes = watch(bindings);
    let mut times = BTreeMap::new();
    let waiting = async {
        while times.len() < count
            && let Some(binding) = changes.next().await
        {
            if is_applied(&binding) {
                let deployment = binding.spec.resource.name.clone();
                times.entry(deployment).or_insert_with(Instant::now);
            }
        }
    };
    // At the limit, the times are those until then.
    let _ = tokio::time::timeout(limit, waiting).await;
    times
}

fn is_applied(binding: &ResourceBinding) -> bool {
    let Some(status) = &binding.status else {
        return false;
    };
    condition::is_true(&status.conditions, CONDITION_FULLY_APPLIED)
        && status.aggregated_status.len() == COPIES
}

impl Turn {
    fn figures(&self, deployments: u32) -> [(&'static str, String); 8] {
        let each = |count: f64| format!("{:.1}", count / f64::from(deployments.max(1)));
        let ratio = f64::from(u32::try_from(self.applied).unwrap_or(u32::MAX));
        [
            ("applied", self.applied.to_string()),
            ("all applied after, s", format!("{:.1}", seconds(self.took))),
            (
                "Deployments/s",
                format!("{:.1}", ratio / self.took.as_secs_f64()),
            ),
            (
                "created to applied p50, s",
                format!("{:.2}", seconds(percentile(&self.latencies, 0.5))),
            ),
            (
                "created to applied p99, s",
                format!("{:.2}", seconds(percentile(&self.latencies, 0.99))),
            ),
            (
                "processor time each, ms",
                format!("{:.1}", millis(self.processor / deployments.max(1))),
            ),
            ("peak memory, MiB", self.peak_mib.to_string()),
            ("writes each", each(self.requests.writes())),
        ]
    }
}
