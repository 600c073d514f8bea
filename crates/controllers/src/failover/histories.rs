//! A property test of failover, failback, the brake and the migration together: over any history of a fleet, no workload loses
//! what it needs by a decision of the controllers, and each is where the scheduler put it in the end.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{
    Config, TestCaseError, TestCaseResult, TestError, TestRng, TestRunner,
};

use super::brake::BrakeOptions;
use super::options::{RebalanceMode, RebalanceOptions};
use super::simulation::fleet::{Fleet, Loss};
use super::simulation::rules::Rules;
use super::simulation::workload::{Shape, Workload};
use super::simulation::works::Guarantee;
use super::simulation::{Clock, Counts, STEP, Simulation};

/// The histories of a run without `PROPTEST_CASES`.
const CASES: u32 = 24;
/// Milliseconds for which a history that fails is simplified.
const MAX_SHRINK_TIME: u32 = 30_000;
/// Seconds within which the workloads come to rest after a history.
const REST: i64 = 3 * 3600;

/// A change of the fleet, or of a workload.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// A policy moves a workload to another cluster.
    Move {
        workload: usize,
        cluster: usize,
    },
    /// A policy moves a workload back to the cluster of its last move.
    Reverse(usize),
    Scale {
        workload: usize,
        replicas: i64,
    },
    /// A cluster is lost, or comes back.
    Connection(usize),
    /// All clusters but one are lost.
    Outage {
        spared: usize,
    },
    /// A cluster gets a `NoExecute` taint, or loses it.
    Taint(usize),
    /// Images of a cluster can no longer be pulled, or can be again.
    Images(usize),
    /// The controllers restart.
    Restart,
}

/// A history: the fleet, the workloads, the rules, and the changes with the seconds between them.
#[derive(Clone, Debug)]
struct History {
    periods: Vec<i64>,
    loss: Loss,
    workloads: Vec<Shape>,
    budget: Option<NonZeroU32>,
    is_rebalancing: bool,
    changes: Vec<(i64, Change)>,
}

fn shape() -> impl Strategy<Value = Shape> {
    (
        1..6_i64,
        prop_oneof![2 => Just(None), 1 => (1..3_usize).prop_map(Some)],
        prop_oneof![3 => Just(None), 1 => (0..3_i64).prop_map(Some)],
        prop_oneof![3 => Just(None), 1 => (1..3_i64).prop_map(Some)],
        1..60_i64,
        prop_oneof![Just(None), Just(Some(120_i64))],
        1..4_i64,
    )
        .prop_map(|fields| Shape {
            replicas: fields.0,
            copies: fields.1,
            surge: fields.2,
            moving: fields.3,
            start_delay: fields.4,
            unhealthy_for: fields.5,
            scheduler_period: fields.6,
        })
}

fn change() -> impl Strategy<Value = Change> {
    let (workload, cluster) = (0..3_usize, 0..6_usize);
    prop_oneof![
        4 => (workload.clone(), cluster.clone()).prop_map(|(workload, cluster)| Change::Move { workload, cluster }),
        2 => workload.clone().prop_map(Change::Reverse),
        1 => (workload, 1..7_i64).prop_map(|(workload, replicas)| Change::Scale { workload, replicas }),
        4 => cluster.clone().prop_map(Change::Connection),
        1 => cluster.clone().prop_map(|spared| Change::Outage { spared }),
        3 => cluster.clone().prop_map(Change::Taint),
        3 => cluster.prop_map(Change::Images),
        3 => Just(Change::Restart),
    ]
}

/// Seconds from one change to the next.
fn gap() -> impl Strategy<Value = i64> {
    prop_oneof![3 => 0..20_i64, 3 => 20..100_i64, 1 => 100..400_i64]
}

fn history() -> impl Strategy<Value = History> {
    (
        prop::collection::vec(1..4_i64, 3..7),
        prop_oneof![Just(Loss::CutOff), Just(Loss::Failed)],
        prop::collection::vec(shape(), 1..4),
        prop_oneof![Just(None), Just(NonZeroU32::new(2))],
        any::<bool>(),
        prop::collection::vec((gap(), change()), 1..40),
    )
        .prop_map(|fields| History {
            periods: fields.0,
            loss: fields.1,
            workloads: fields.2,
            budget: fields.3,
            is_rebalancing: fields.4,
            changes: fields.5,
        })
}

/// A history that runs.
struct Run {
    simulation: Simulation,
    clock: Clock,
    second: i64,
    /// The former home of each workload.
    former: Vec<usize>,
    restarts: usize,
    moves: usize,
}

impl Run {
    fn new(history: &History) -> Self {
        let [.., mut rules] = Rules::all();
        rules.options.brake = BrakeOptions::default();
        rules.options.move_budget = history.budget;
        rules.options.graceful_eviction_timeout = Duration::from_mins(3);
        rules.options.rebalance = history.is_rebalancing.then(|| RebalanceOptions {
            mode: RebalanceMode::On,
            failback_after: Duration::from_secs(30),
            ..RebalanceOptions::default()
        });
        let clock = Clock::new();
        let fleet = Fleet::new(&history.periods, history.loss, clock.at(0));
        let shapes = history.workloads.iter().cloned();
        let workloads: Vec<Workload> = shapes.map(|shape| Workload::new(shape, 0)).collect();
        Self {
            former: vec![0; workloads.len()],
            simulation: Simulation::new(fleet, workloads, &rules, clock),
            clock,
            second: 0,
            restarts: 0,
            moves: 0,
        }
    }

    /// Steps until a number of seconds has passed, or until nothing happens any more.
    fn advance(&mut self, seconds: i64) -> TestCaseResult {
        let end = self.second + seconds;
        while self.second < end && !self.simulation.is_calm() {
            self.second += STEP;
            for (number, write) in self.simulation.step(self.second) {
                check(write).map_err(|broken| {
                    let about = self.simulation.workloads[number].about();
                    TestCaseError::fail(format!(
                        "second {}: {broken}: {write:?}: {about}",
                        self.second
                    ))
                })?;
            }
        }
        self.second = self.second.max(end);
        Ok(())
    }

    fn apply(&mut self, change: Change) {
        let (second, clocks) = (self.second, self.clock.at(self.second));
        let fleet = &mut self.simulation.fleet;
        let clusters = fleet.len();
        let count = self.simulation.workloads.len();
        match change {
            Change::Move { workload, cluster } => {
                self.move_home(workload % count, cluster % clusters);
            }
            Change::Reverse(workload) => {
                let workload = workload % count;
                self.move_home(workload, self.former[workload]);
            }
            Change::Scale { workload, replicas } => {
                self.simulation.workloads[workload % count].scale(replicas);
            }
            Change::Connection(cluster) => {
                let cluster = cluster % clusters;
                fleet.toggle_connection(cluster, second);
            }
            Change::Outage { spared } => {
                for cluster in (0..clusters).filter(|cluster| *cluster != spared % clusters) {
                    if fleet.is_connected(cluster) {
                        fleet.toggle_connection(cluster, second);
                    }
                }
            }
            Change::Taint(cluster) => {
                let cluster = cluster % clusters;
                fleet.toggle_taint(cluster, clocks);
            }
            Change::Images(cluster) => {
                let cluster = cluster % clusters;
                fleet.toggle_images(cluster);
            }
            Change::Restart => {
                self.restarts += 1;
                self.simulation.restart(second);
            }
        }
    }

    fn move_home(&mut self, workload: usize, cluster: usize) {
        let now = self.clock.at(self.second).wall;
        let Simulation {
            workloads, fleet, ..
        } = &mut self.simulation;
        let moved = &mut workloads[workload];
        self.former[workload] = moved.home();
        self.moves += usize::from(moved.move_home(cluster, fleet, now));
    }

    /// Ends all that keeps workloads away or not ready.
    fn recover(&mut self) {
        let clocks = self.clock.at(self.second);
        let fleet = &mut self.simulation.fleet;
        for cluster in 0..fleet.len() {
            if !fleet.is_connected(cluster) {
                fleet.toggle_connection(cluster, self.second);
            }
            if fleet.is_tainted(cluster) {
                fleet.toggle_taint(cluster, clocks);
            }
            if !fleet.pulls_images(cluster) {
                fleet.toggle_images(cluster);
            }
        }
    }
}

/// Checks what a write of Works took.
fn check(write: Guarantee) -> Result<(), &'static str> {
    let Guarantee {
        before,
        after,
        least,
        granted,
        most,
    } = write;
    let takes = |before: i64, after: i64| after < before.min(least);
    if takes(before.everywhere, after.everywhere)
        || takes(before.in_ready_clusters, after.in_ready_clusters)
    {
        return Err("ready replicas were taken");
    }
    if most.is_some_and(|most| granted.1 > most.max(granted.0)) {
        return Err("more than the surge was started");
    }
    Ok(())
}

fn run(history: &History) -> Result<Run, TestCaseError> {
    let mut run = Run::new(history);
    for (seconds, change) in &history.changes {
        run.apply(*change);
        run.advance(*seconds)?;
    }
    run.recover();
    run.advance(REST)?;
    let Simulation {
        workloads, fleet, ..
    } = &run.simulation;
    match workloads.iter().find(|workload| !workload.is_calm(fleet)) {
        Some(workload) => Err(TestCaseError::fail(format!(
            "not at rest: {}",
            workload.about()
        ))),
        None => Ok(run),
    }
}

fn add(total: &Cell<[usize; 8]>, run: &Run) {
    let Counts {
        evictions,
        ended_evictions,
        cancelled_evictions,
        returns,
        braked,
        migrations,
        ..
    } = run.simulation.counts;
    let counts = [
        run.moves,
        run.restarts,
        evictions,
        ended_evictions,
        cancelled_evictions,
        returns,
        braked,
        migrations,
    ];
    let mut sums = total.get();
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum += count;
    }
    total.set(sums);
}

#[test]
fn over_any_history_nothing_needed_is_lost_and_each_workload_comes_to_rest() {
    let mut config = Config {
        failure_persistence: None,
        max_shrink_time: MAX_SHRINK_TIME,
        ..Config::default()
    };
    let is_default = std::env::var_os("PROPTEST_CASES").is_none();
    if is_default {
        config.cases = CASES;
    }
    // Without a number of cases, each run has the same histories, in which everything that is counted occurs.
    let mut runner = if is_default {
        let rng = TestRng::deterministic_rng(config.rng_algorithm);
        TestRunner::new_with_rng(config, rng)
    } else {
        TestRunner::new(config)
    };
    let total = Cell::new([0; 8]);
    let outcome = runner.run(&history(), |history| {
        add(&total, &run(&history)?);
        Ok(())
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, history)) => panic!("{reason}\n{history:?}"),
        Err(failure) => panic!("{failure}"),
    }
    let total = total.get();
    assert!(
        total.iter().all(|count| *count > 0),
        "moves, restarts, evictions, their ends and cancellations, returns, braked steps and migrations: {total:?}"
    );
}
