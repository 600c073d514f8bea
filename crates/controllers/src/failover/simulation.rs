//! A simulation of failover and migration: the decisions of the controllers against a simulated clock, scheduler and fleet.
//! [`storm`](super::storm) measures them, and [`histories`](super::histories) checks their invariants.

mod copy;
pub(super) mod fleet;
pub(super) mod rules;
mod scheduler;
pub(super) mod workload;
pub(super) mod works;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use berth_interpreter::Interpreter;
use jiff::{SignedDuration, Timestamp};

use self::fleet::Fleet;
use self::rules::Rules;
use self::workload::Workload;
use self::works::Guarantee;
use super::action::{Action, Clocks, Trackers, decide};
use super::brake::{Brake, HeldBrake};
use super::cluster::ClusterRecord;
use super::eviction::{eviction_patch, eviction_task};
use super::failback;
use super::rate_limiter::{MoveBudget, RateLimiter, interval};
use super::report::Reports;

/// Seconds between two steps.
pub(super) const STEP: i64 = 2;

/// A fleet with its workloads and controllers.
pub(super) struct Simulation {
    pub(super) fleet: Fleet,
    pub(super) workloads: Vec<Workload>,
    pub(super) counts: Counts,
    controllers: Controllers,
    rules: Rules,
    interpreter: Interpreter,
    clock: Clock,
}

/// The number of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Replicas that were started in another cluster, or again.
    pub(super) started: i64,
    pub(super) evictions: usize,
    pub(super) ended_evictions: usize,
    pub(super) cancelled_evictions: usize,
    pub(super) returns: usize,
    /// Steps in which the brake was engaged.
    pub(super) braked: usize,
    /// Times at which a migration began.
    pub(super) migrations: usize,
    /// Seconds in which a workload had fewer ready replicas than wanted, of all workloads together.
    pub(super) below_target: i64,
}

/// The memory of the controllers, which a restart drops.
struct Controllers {
    trackers: Trackers,
    limiter: RateLimiter,
    budget: MoveBudget,
    brake: HeldBrake,
}

/// The clocks, as functions of the simulated second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: Instant,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    pub(super) fn at(self, second: i64) -> Clocks {
        Clocks {
            wall: Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second),
            now: self.start + Duration::from_secs(second.unsigned_abs()),
        }
    }
}

impl Controllers {
    fn new(rules: &Rules) -> Self {
        let taints = rules.options.taint_eviction.as_ref();
        Self {
            trackers: Trackers::default(),
            limiter: RateLimiter::new(interval(taints.map_or(0.0, |taints| taints.rate))),
            budget: MoveBudget::new(rules.options.move_budget),
            brake: HeldBrake::default(),
        }
    }
}

impl Simulation {
    pub(super) fn new(fleet: Fleet, workloads: Vec<Workload>, rules: &Rules, clock: Clock) -> Self {
        Self {
            fleet,
            workloads,
            counts: Counts::default(),
            controllers: Controllers::new(rules),
            rules: rules.clone(),
            interpreter: Interpreter::default(),
            clock,
        }
    }

    /// Restarts the controllers.
    pub(super) fn restart(&mut self, second: i64) {
        self.controllers = Controllers::new(&self.rules);
        self.fleet.forget(self.clock.at(second));
        for workload in &mut self.workloads {
            workload.forget();
        }
    }

    /// Reports whether nothing happens any more.
    pub(super) fn is_calm(&self) -> bool {
        self.workloads
            .iter()
            .all(|workload| workload.is_calm(&self.fleet))
    }

    /// Returns the number of workloads that have fewer ready replicas than wanted.
    pub(super) fn incomplete(&self, second: i64) -> usize {
        let workloads = self.workloads.iter();
        workloads
            .filter(|workload| workload.is_incomplete(&self.fleet, second))
            .count()
    }

    /// Runs one step. Returns what each write of Works changed, by the number of the workload.
    pub(super) fn step(&mut self, second: i64) -> Vec<(usize, Guarantee)> {
        let clocks = self.clock.at(second);
        // 1. The control plane notices lost clusters.
        self.fleet.observe(second, clocks);
        let options = self.rules.options.brake;
        let readiness = self.fleet.records.values().map(ClusterRecord::readiness);
        let brake = &mut self.controllers.brake;
        brake.update(Brake::of(readiness, options), options.hold, clocks.now);
        self.counts.braked += usize::from(brake.get().is_engaged());
        let mut writes = Vec::new();
        for number in 0..self.workloads.len() {
            let workload = &mut self.workloads[number];
            if workload.rests(&self.fleet) {
                continue;
            }
            // 2. The members apply their Works, and report.
            self.counts.started += workload.apply(&self.fleet, second);
            workload.report(&self.fleet, second, clocks.now);
            // 3. Failover decides.
            self.act(number, clocks);
            // 4. The scheduler places what is missing.
            let workload = &mut self.workloads[number];
            workload.schedule(&self.fleet, second);
            // 5. The binding controller writes Works.
            let migrates = workload.is_migrating();
            let write = workload.write_works(&self.fleet, &self.rules, second, &self.interpreter);
            writes.extend(write.map(|write| (number, write)));
            self.counts.migrations += usize::from(!migrates && workload.is_migrating());
            if workload.is_incomplete(&self.fleet, second) {
                self.counts.below_target += STEP;
            }
        }
        writes
    }

    /// Applies the decision of failover about a workload, within the rate and the budget.
    fn act(&mut self, number: usize, clocks: Clocks) {
        let workload = &mut self.workloads[number];
        let clusters: &HashMap<String, ClusterRecord> = &self.fleet.records;
        let options = &self.rules.options;
        let Controllers {
            trackers,
            limiter,
            budget,
            brake,
        } = &mut self.controllers;
        let reports = Reports::new(&workload.binding, clusters, clocks.now);
        let decision = decide(&reports, trackers, options, brake.get(), clocks);
        let is_move = matches!(decision.action, Action::Evict(_) | Action::Return(_));
        if is_move {
            let waits = limiter.next_allowed(clocks.now).is_some();
            if waits || budget.next_allowed(clocks.now).is_some() {
                return;
            }
            limiter.record(clocks.now);
            budget.record(clocks.now);
        }
        match decision.action {
            Action::None | Action::MovePending(_) => {}
            Action::UpdateTasks(update) => {
                self.counts.ended_evictions += update.finished.len();
                self.counts.cancelled_evictions += update.cancelled.len();
                if let Some(mut patch) = update.patch {
                    failback::forget(&workload.binding, &update.cancelled, &mut patch);
                    workload.patch(&patch);
                }
            }
            Action::Evict(clusters) => {
                self.counts.evictions += clusters.len();
                let tasks = clusters.iter().map(|(cluster, reason)| {
                    let mut task = eviction_task(&workload.binding, cluster, *reason, options);
                    if let Ok(task) = &mut task
                        && !self.rules.cancels_evictions
                    {
                        // The cause of a task of another controller is unknown, so that the task is never cancelled.
                        task.producer.clear();
                    }
                    task.unwrap()
                });
                let tasks = tasks.collect();
                let patch = eviction_patch(&workload.binding, tasks, options.rebalance.as_ref());
                workload.patch(&patch.unwrap());
            }
            Action::Return(failback) => {
                self.counts.returns += 1;
                let patch = failback.patch(&workload.binding, clocks.wall);
                workload.patch(&patch);
                workload.return_home(&self.fleet, clocks.wall);
            }
        }
    }
}
