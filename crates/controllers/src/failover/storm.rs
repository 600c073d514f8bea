//! A storm: many clusters are lost and come back, again and again. A [`simulation`](super::simulation) counts what moves and
//! what is missing.
//!
//! `cargo test -p berth-controllers --lib storm -- --nocapture --include-ignored` prints the table of `docs/failover.md`.

use super::simulation::fleet::{Fleet, Loss};
use super::simulation::rules::Rules;
use super::simulation::workload::{Shape, Workload};
use super::simulation::{Clock, STEP, Simulation};

/// Seconds for which a cluster is lost.
const LOST: i64 = 150;
/// Seconds for which it is back before it is lost again.
const BACK: i64 = 120;
/// The second at which the storm begins.
const BEGIN: i64 = 60;

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

impl Size {
    /// Reports whether a flapping cluster is connected.
    fn is_connected_at(self, number: usize, second: i64) -> bool {
        // The clusters are lost within half a minute.
        let offset = i64::try_from(number).unwrap() * 30 / i64::try_from(self.flapping).unwrap();
        let time = second - BEGIN - offset;
        time < 0 || second >= self.storm || time % (LOST + BACK) >= LOST
    }
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
    let clock = Clock::new();
    let fleet = Fleet::new(&vec![1; size.clusters], loss, clock.at(0));
    let homes: Vec<usize> = (0..size.workloads)
        .map(|number| number % size.clusters)
        .collect();
    let workloads = homes
        .iter()
        .map(|home| Workload::new(Shape::default(), *home));
    let mut simulation = Simulation::new(fleet, workloads.collect(), rules, clock);
    let end = 2 * size.storm;
    for second in (0..end).step_by(usize::try_from(STEP).unwrap()) {
        for number in 0..size.flapping {
            let is_connected = size.is_connected_at(number, second);
            if simulation.fleet.is_connected(number) != is_connected {
                simulation.fleet.toggle_connection(number, second);
            }
        }
        simulation.step(second);
    }
    let pairs = simulation.workloads.iter().zip(&homes);
    Cost {
        moved: simulation.counts.started,
        below_target: simulation.counts.below_target,
        away: pairs
            .filter(|(workload, home)| !workload.is_in(**home))
            .count(),
        incomplete: simulation.incomplete(end),
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
