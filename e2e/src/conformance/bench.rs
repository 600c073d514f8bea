//! Benchmark of the scheduling engine.
//!
//! A measured decision converts a binding to a [`Request`], and calls the engine with an existing [`Snapshot`] of the
//! clusters. The name, UID, replicas, resource request and previous clusters of the binding vary between decisions.
//! For cold decisions, the placement varies too: a label value or a cluster name differs. For warm decisions, the
//! placement is always the same, so that the engine can use its cache.

use std::hint::black_box;
use std::time::{Duration, Instant};

use berth_api::BindingKey;
use berth_api::binding::{BindingSpec, BindingStatus, TargetCluster};
use berth_api::cluster::Cluster;
use berth_api::quantity::QuantityText;
use berth_engine::{Engine, EngineOptions, Fleet, Outcome, Request, Snapshot};
use serde::Serialize;

use super::corpus::Scenario;

/// Number of different bindings. The decisions use these bindings in turn.
const BINDINGS: usize = 192;
/// Minimum number of samples, even if they take longer than the given time.
const MIN_SAMPLES: usize = 2 * BINDINGS;

/// Counters of the allocator.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Number of allocations and reallocations.
    pub allocations: usize,
    /// Total bytes allocated since the start of the program.
    pub allocated: usize,
    /// Total bytes freed since the start of the program.
    pub freed: usize,
}

/// Measurements of a scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    id: String,
    cold_ns: u64,
    warm_ns: u64,
    cold_p99_ns: u64,
    warm_p99_ns: u64,
    /// Median time to apply a change of a cluster's free capacity and to create the next snapshot, while the previous
    /// snapshot is still in use.
    change_ns: u64,
    /// Median time to apply a label value that no other cluster has and to create the next snapshot.
    relabel_ns: u64,
    /// Median time to remove a cluster and to create the next snapshot. The removal changes the ordinals of other
    /// clusters.
    leave_ns: u64,
    cold_allocations: usize,
    warm_allocations: usize,
    cold_bytes: usize,
    warm_bytes: usize,
    /// Memory of the fleet and its snapshot, in bytes.
    fleet_bytes: usize,
    /// Hash of the decisions about all cold and warm bindings.
    decisions: String,
}

/// Measures decisions about a scenario for this number of seconds. `memory` reads the counters of the allocator. Also
/// reports whether an engine without a cache makes the same decisions.
///
/// # Errors
/// If the binding is invalid.
pub fn measure(
    scenario: &Scenario,
    seconds: f64,
    memory: &dyn Fn() -> Memory,
) -> Result<(Measured, bool), String> {
    let occupied = |memory: Memory| memory.allocated.saturating_sub(memory.freed);
    let before = occupied(memory());
    let mut fleet = Fleet::new();
    for cluster in &scenario.clusters {
        fleet.apply(cluster);
    }
    let snapshot = fleet.snapshot();
    let fleet_bytes = occupied(memory()).saturating_sub(before);
    let bindings = |placements| {
        (0..BINDINGS)
            .map(|number| binding(scenario, number, placements))
            .collect::<Vec<_>>()
    };
    let (cold, warm) = (bindings(Placements::Varied), bindings(Placements::Same));
    let time = Duration::from_secs_f64((seconds / 2.0).max(0.01));
    let (cold_run, warm_run) = (
        Run::new(&snapshot, &cold, time, memory)?,
        Run::new(&snapshot, &warm, time, memory)?,
    );
    let hash = |engine: &mut dyn FnMut() -> Result<Engine, String>| -> Result<u64, String> {
        Ok(hash_of(&snapshot, &mut engine()?, &cold)?
            ^ hash_of(&snapshot, &mut engine()?, &warm)?.rotate_left(1))
    };
    let cached = hash(&mut engine)?;
    let uncached = hash(&mut || Ok(engine()?.with_cached_placements(0)))?;
    let measured = Measured {
        id: scenario.id.clone(),
        cold_ns: cold_run.median,
        warm_ns: warm_run.median,
        cold_p99_ns: cold_run.p99,
        warm_p99_ns: warm_run.p99,
        change_ns: change(&mut fleet, &scenario.clusters, take_capacity),
        relabel_ns: change(&mut fleet, &scenario.clusters, relabel),
        leave_ns: leave(&mut fleet, &scenario.clusters),
        cold_allocations: cold_run.allocations,
        warm_allocations: warm_run.allocations,
        cold_bytes: cold_run.bytes,
        warm_bytes: warm_run.bytes,
        fleet_bytes,
        decisions: format!("{cached:016x}"),
    };
    Ok((measured, cached == uncached))
}

fn engine() -> Result<Engine, String> {
    Engine::new(EngineOptions::default()).map_err(|error| error.to_string())
}

/// Variation of the placement between bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placements {
    Same,
    Varied,
}

struct Binding {
    key: BindingKey,
    spec: BindingSpec,
    status: BindingStatus,
}

fn binding(scenario: &Scenario, number: usize, placements: Placements) -> Binding {
    const CPU: [&str; 8] = ["100m", "250m", "500m", "750m", "1", "1500m", "2", "4"];
    const MEMORY: [&str; 8] = [
        "128Mi", "256Mi", "512Mi", "1Gi", "1536Mi", "2Gi", "3Gi", "4Gi",
    ];
    let mut spec = scenario.binding.spec.clone();
    spec.resource.name = format!("w{number}");
    spec.resource.uid = Some(format!("0123456789abcde{:x}", number % 16));
    // The replicas vary by up to a tenth.
    let tenth = spec.replicas / 10;
    let step = i32::try_from(number * 7 % 21).unwrap_or(0) - 10;
    spec.replicas = (spec.replicas + tenth * step / 10).max(1);
    if let Some(requirements) = &mut spec.replica_requirements {
        for (resource, sizes) in [("cpu", CPU), ("memory", MEMORY)] {
            if let Some(quantity) = requirements.resource_request.get_mut(resource) {
                *quantity = QuantityText::from(sizes[number % sizes.len()]);
            }
        }
    }
    let name_of = |index: usize| {
        let cluster = &scenario.clusters[index % scenario.clusters.len()];
        cluster.metadata.name.clone().unwrap_or_default()
    };
    if number % 2 == 1 {
        let target = |nth: usize| TargetCluster {
            name: name_of(number * 13 + nth * 31),
            replicas: (spec.replicas / 4).max(1),
            components: Vec::new(),
        };
        spec.clusters = (0..3).map(target).collect();
        spec.clusters.sort_by(|a, b| a.name.cmp(&b.name));
        spec.clusters.dedup_by(|a, b| a.name == b.name);
    }
    if placements == Placements::Varied
        && let Some(placement) = &mut spec.placement
    {
        let affinity = placement.cluster_affinity.get_or_insert_default();
        let values = affinity
            .label_selector
            .iter_mut()
            .flat_map(|selector| &mut selector.match_expressions)
            .find(|expression| !expression.values.is_empty());
        match (values, affinity.cluster_names.last_mut()) {
            (Some(expression), _) => expression.values.push(format!("other-{number}")),
            (None, Some(name)) => *name = name_of(number * 17),
            (None, None) => affinity.exclude_clusters.push(name_of(number * 17)),
        }
    }
    Binding {
        key: BindingKey::new("default", &format!("w{number}-deployment")),
        spec,
        status: scenario.binding.status.clone().unwrap_or_default(),
    }
}

fn decide(snapshot: &Snapshot, engine: &mut Engine, binding: &Binding) -> Result<Outcome, String> {
    let request = Request::new(&binding.key, &binding.spec, &binding.status)
        .map_err(|error| error.to_string())?;
    Ok(engine.schedule(snapshot, &request))
}

struct Run {
    median: u64,
    p99: u64,
    allocations: usize,
    bytes: usize,
}

impl Run {
    fn new(
        snapshot: &Snapshot,
        bindings: &[Binding],
        time: Duration,
        memory: &dyn Fn() -> Memory,
    ) -> Result<Self, String> {
        // The cache keeps one placement only, so that a varied placement is never cached when its binding is repeated.
        let mut engine = engine()?.with_cached_placements(1);
        let mut samples = Vec::with_capacity(1 << 16);
        let started = Instant::now();
        while samples.len() < MIN_SAMPLES || started.elapsed() < time {
            let binding = &bindings[samples.len() % bindings.len()];
            let start = Instant::now();
            let outcome = black_box(decide(snapshot, &mut engine, black_box(binding))?);
            samples.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
            drop(outcome);
        }
        let before = memory();
        for binding in bindings {
            black_box(decide(snapshot, &mut engine, binding)?);
        }
        let after = memory();
        samples.sort_unstable();
        Ok(Self {
            median: samples[samples.len() / 2],
            p99: samples[samples.len() * 99 / 100],
            allocations: (after.allocations - before.allocations) / bindings.len(),
            bytes: (after.allocated - before.allocated) / bindings.len(),
        })
    }
}

/// Returns the median time to apply a change of a cluster and to create the next snapshot, in nanoseconds.
fn change(fleet: &mut Fleet, clusters: &[Cluster], change: impl Fn(&mut Cluster, usize)) -> u64 {
    let mut samples = Vec::new();
    for round in 0..400 {
        let mut cluster = clusters[round * 37 % clusters.len()].clone();
        change(&mut cluster, round);
        let in_use = fleet.snapshot();
        let start = Instant::now();
        fleet.apply(black_box(&cluster));
        black_box(fleet.snapshot());
        samples.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        drop(in_use);
    }
    samples.sort_unstable();
    samples[samples.len() / 2]
}

fn take_capacity(cluster: &mut Cluster, round: usize) {
    let status = cluster.status.as_mut();
    if let Some(summary) = status.and_then(|status| status.resource_summary.as_mut()) {
        let taken = QuantityText(format!("{}m", 1000 + round));
        summary.allocated.insert("cpu".to_owned(), taken);
    }
}

fn relabel(cluster: &mut Cluster, round: usize) {
    let labels = cluster.metadata.labels.get_or_insert_default();
    labels.insert("team".to_owned(), format!("team-{round}"));
}

/// Returns the median time to remove a cluster and to create the next snapshot, in nanoseconds.
fn leave(fleet: &mut Fleet, clusters: &[Cluster]) -> u64 {
    let mut samples = Vec::new();
    for round in 0..40 {
        let cluster = &clusters[round * 37 % clusters.len()];
        let in_use = fleet.snapshot();
        let start = Instant::now();
        fleet.remove(cluster.metadata.name.as_deref().unwrap_or_default());
        black_box(fleet.snapshot());
        samples.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        drop(in_use);
        fleet.apply(cluster);
    }
    samples.sort_unstable();
    samples[samples.len() / 2]
}

/// Schedules all bindings twice, and returns the FNV-1a hash of the decisions.
fn hash_of(snapshot: &Snapshot, engine: &mut Engine, bindings: &[Binding]) -> Result<u64, String> {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for binding in bindings.iter().chain(bindings) {
        let outcome = decide(snapshot, engine, binding)?;
        for byte in format!("{outcome:?}").bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    Ok(hash)
}
