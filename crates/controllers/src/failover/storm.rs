//! A simulation of a storm: many clusters are lost and come back, again and again. It runs the decisions of failover and of
//! the migration against a simulated clock, scheduler and fleet, and counts what moves and what is missing.
//!
//! `cargo test -p berth-controllers --lib storm -- --nocapture --include-ignored` prints the table of `docs/failover.md`.

mod fleet;
mod rules;
mod workload;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use self::fleet::{Fleet, Loss};
use self::rules::Rules;
use self::workload::Workload;
use super::action::{Action, Clocks, Trackers, decide};
use super::brake::{Brake, HeldBrake};
use super::cluster::ClusterRecord;
use super::eviction::{eviction_patch, eviction_task};
use super::failback;
use super::rate_limiter::{MoveBudget, RateLimiter, interval};
use super::report::Reports;

/// Seconds between two looks at the world.
const STEP: i64 = 2;

/// The size of a storm.
#[derive(Clone, Copy, Debug)]
struct Size {
    clusters: usize,
    /// The clusters that are lost again and again.
    flapping: usize,
    workloads: usize,
    /// Seconds until the storm ends. The simulation goes on for as long again.
    storm: i64,
}

/// The costs of a storm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    /// Replicas that were started in another cluster, or again.
    moved: i64,
    /// Seconds in which a workload had fewer ready replicas than wanted, of all workloads together.
    below_target: i64,
    /// Workloads that are not in their first cluster at the end.
    away: usize,
    /// Workloads that have fewer ready replicas than wanted at the end.
    incomplete: usize,
}

/// Runs a storm under these rules.
fn run(size: Size, loss: Loss, rules: &Rules) -> Cost {
    let (start, epoch) = (Instant::now(), Timestamp::UNIX_EPOCH);
    let clocks = |second: i64| Clocks {
        wall: epoch + SignedDuration::from_secs(second),
        now: start + Duration::from_secs(second.unsigned_abs()),
    };
    let mut fleet = Fleet::new(size, loss, clocks(0));
    let mut workloads: Vec<Workload> = (0..size.workloads)
        .map(|number| Workload::new(number % size.clusters))
        .collect();
    let mut trackers = Trackers::default();
    let options = &rules.options;
    let rate = options
        .taint_eviction
        .as_ref()
        .map_or(0.0, |taints| taints.rate);
    let mut limiter = RateLimiter::new(interval(rate));
    let mut budget = MoveBudget::new(options.move_budget);
    let mut brake = HeldBrake::default();
    let mut cost = Cost::default();
    for second in (0..2 * size.storm).step_by(usize::try_from(STEP).unwrap()) {
        let clocks = clocks(second);
        // 1. Clusters are lost and come back.
        fleet.advance(second, clocks);
        let readiness = fleet.records.values().map(ClusterRecord::readiness);
        brake.update(
            Brake::of(readiness, options.brake),
            options.brake.hold,
            clocks.now,
        );
        for workload in &mut workloads {
            if workload.is_calm(&fleet) {
                continue;
            }
            // 2. The members apply their Works, and report.
            cost.moved += workload.apply(&fleet, second);
            workload.report(&fleet, second, clocks.now);
            // 3. Failover decides.
            act(
                workload,
                &fleet.records,
                rules,
                brake.get(),
                clocks,
                (&mut trackers, &mut limiter, &mut budget),
            );
            // 4. The scheduler places what is missing.
            workload.schedule(&fleet);
            // 5. The binding controller writes Works.
            workload.write_works(&fleet, rules, second);
            if workload.ready(&fleet, second) < workload::REPLICAS {
                cost.below_target += STEP;
            }
        }
    }
    let end = 2 * size.storm;
    let incomplete = |workload: &&Workload| workload.ready(&fleet, end) < workload::REPLICAS;
    cost.away = workloads
        .iter()
        .filter(|workload| !workload.is_home())
        .count();
    cost.incomplete = workloads.iter().filter(incomplete).count();
    cost
}

/// Applies the decision of failover about a workload, within the rate and the budget.
fn act(
    workload: &mut Workload,
    clusters: &HashMap<String, ClusterRecord>,
    rules: &Rules,
    brake: Brake,
    clocks: Clocks,
    (trackers, limiter, budget): (&mut Trackers, &mut RateLimiter, &mut MoveBudget),
) {
    let reports = Reports::new(&workload.binding, clusters, clocks.now);
    let decision = decide(&reports, trackers, &rules.options, brake, clocks);
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
            if let Some(mut patch) = update.patch {
                failback::forget(&workload.binding, &update.cancelled, &mut patch);
                workload.patch(&patch);
            }
        }
        Action::Evict(clusters) => {
            let tasks = clusters.iter().map(|(cluster, reason)| {
                let mut task = eviction_task(&workload.binding, cluster, *reason, &rules.options);
                if let Ok(task) = &mut task
                    && !rules.cancels_evictions
                {
                    // The cause of a task of another controller is unknown, so that the task is never cancelled.
                    task.producer.clear();
                }
                task.unwrap()
            });
            let tasks = tasks.collect();
            let patch = eviction_patch(&workload.binding, tasks, rules.options.rebalance.as_ref());
            workload.patch(&patch.unwrap());
        }
        Action::Return(failback) => {
            let patch = failback.patch(&workload.binding, clocks.wall);
            workload.patch(&patch);
            workload.return_home(clusters);
        }
    }
}

/// Returns the table of the costs of a storm.
fn table(size: Size) -> String {
    let mut lines = vec![
        "| Rules | Replicas moved | Seconds below target | Workloads away at the end |".to_owned(),
        "|---|---|---|---|".to_owned(),
    ];
    for (loss, about) in [
        (Loss::CutOff, "the control plane is cut off"),
        (Loss::Failed, "the clusters fail"),
    ] {
        // The clusters flap too often for a return within the simulated time.
        for rules in Rules::all()
            .iter()
            .filter(|rules| rules.options.rebalance.is_none())
        {
            let cost = run(size, loss, rules);
            assert_eq!(cost.incomplete, 0, "{}", rules.name);
            lines.push(format!(
                "| {about}: {} | {} | {} | {} |",
                rules.name, cost.moved, cost.below_target, cost.away
            ));
        }
    }
    lines.join("\n")
}

/// Prints the table of a storm in which 100 of 300 clusters flap for half an hour, with 2,000 workloads.
#[test]
#[ignore = "takes minutes without optimization"]
fn the_table_of_a_storm() {
    let size = Size {
        clusters: 300,
        flapping: 100,
        workloads: 2000,
        storm: 1800,
    };
    println!("{}", table(size));
}

#[test]
fn the_brake_prevents_needless_moves_and_all_workloads_end_complete() {
    let size = Size {
        clusters: 30,
        flapping: 10,
        workloads: 300,
        storm: 600,
    };
    let [cut_off, failed] = [Loss::CutOff, Loss::Failed]
        .map(|loss| Rules::all().each_ref().map(|rules| run(size, loss, rules)));
    let [karmada, gentle, budget, brake, _] = cut_off.each_ref().map(|cost| cost.moved);
    assert!(budget < karmada && budget < gentle, "{cut_off:?}");
    assert!(brake < budget, "{cut_off:?}");
    for cost in &cut_off {
        assert_eq!(cost.below_target, 0, "{cut_off:?}");
    }
    for cost in cut_off.iter().chain(&failed) {
        assert_eq!(cost.incomplete, 0, "{cut_off:?} {failed:?}");
    }
    let [.., rebalanced] = failed;
    assert_eq!(rebalanced.away, 0, "{failed:?}");
}
