//! The search for the smallest changes that place a workload on any cluster, or on one particular cluster.
//!
//! The search applies each proposal to the fleet and the binding, and the engine decides again. If this decision has
//! the intended result, the changes become a fix. Otherwise, the reason in this decision leads to further proposals.
//! The search is breadth first, so it finds fixes with fewer changes first.

use std::collections::VecDeque;

use berth_engine::{Outcome, Stage};

use crate::change::Change;
use crate::changed_case::Simulation;
use crate::fix::{Fix, Share};
use crate::proposals::{self, Number, Proposal};
use crate::report::Report;

/// Maximum number of changes in a fix.
const MOST_CHANGES: usize = 4;
/// Maximum number of fixes to report for each cluster.
const FIXES_OF_CLUSTER: usize = 3;
/// Maximum number of fixes to report for a binding that is not placed.
const FIXES_OF_BINDING: usize = 5;
/// Maximum number of clusters with the same reason in the search for fixes of a binding.
const CLUSTERS_PER_REASON: usize = 8;
/// Number of decisions after which the search for one cluster tries no further proposal.
const DECISIONS_OF_CLUSTER: usize = 60;

/// Limits of the search for fixes.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Number of decisions for one report after which no further search starts.
    pub decisions: usize,
    /// The names of the clusters for which fixes are searched. `None` means all clusters, until the number of decisions
    /// is reached.
    pub clusters: Option<Vec<String>>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            decisions: 600,
            clusters: None,
        }
    }
}

impl Limits {
    /// Returns limits that prevent any search.
    pub fn none() -> Self {
        Self {
            decisions: 0,
            clusters: Some(Vec::new()),
        }
    }
}

/// The result that a fix must have.
#[derive(Clone, Copy, Debug)]
enum Goal<'a> {
    /// The cluster with this name has the workload.
    On(&'a str),
    /// Any cluster has the workload.
    Placed,
}

impl Goal<'_> {
    fn result(self, outcome: &Outcome, divides: bool) -> Option<Vec<Share>> {
        let placement = outcome.result.as_ref().ok()?;
        let has = |target: &berth_engine::Target| !divides || target.replicas > 0;
        let is_met = match self {
            Self::On(cluster) => placement
                .targets
                .iter()
                .any(|target| &*target.name == cluster && has(target)),
            Self::Placed => placement.targets.iter().any(has),
        };
        let mut shares: Vec<Share> = placement
            .targets
            .iter()
            .map(|target| Share {
                name: target.name.to_string(),
                replicas: i64::from(target.replicas),
            })
            .collect();
        shares.sort_unstable();
        is_met.then_some(shares)
    }
}

/// Adds fixes to the report: for the binding if it is not placed, and for the clusters without the workload. If
/// `limits` names clusters, the search starts with these clusters, so that they are searched before the limit of
/// decisions is reached.
pub(crate) fn add_fixes(report: &mut Report, simulation: &mut Simulation<'_>, limits: &Limits) {
    if limits.clusters.is_some() {
        add_fixes_of_clusters(report, simulation, limits);
    }
    if !report.is_placed() {
        report.fixes = fixes_of_binding(report, simulation, limits);
    }
    if limits.clusters.is_none() {
        add_fixes_of_clusters(report, simulation, limits);
    }
}

fn add_fixes_of_clusters(report: &mut Report, simulation: &mut Simulation<'_>, limits: &Limits) {
    let names: Vec<String> = report
        .clusters
        .iter()
        .filter(|cluster| !matches!(cluster.stage, Stage::Placed | Stage::Deleting))
        .filter(|cluster| {
            let wanted = limits.clusters.as_ref();
            wanted.is_none_or(|wanted| wanted.contains(&cluster.name))
        })
        .map(|cluster| cluster.name.clone())
        .collect();
    let mut skipped = 0;
    for name in names {
        if simulation.decisions >= limits.decisions {
            skipped += 1;
            continue;
        }
        let fixes = search(simulation, Goal::On(&name), &name, DECISIONS_OF_CLUSTER);
        if let Some(cluster) = report.clusters.iter_mut().find(|c| c.name == name) {
            cluster.fixes = smallest(fixes, FIXES_OF_CLUSTER);
        }
    }
    if skipped > 0 {
        report.notes.push(format!(
            "the limit of decisions was reached before fixes for {skipped} clusters were searched; request one of these clusters by name"
        ));
    }
}

fn fixes_of_binding(report: &Report, simulation: &mut Simulation<'_>, limits: &Limits) -> Vec<Fix> {
    let mut fixes: Vec<Fix> = Vec::new();
    for count in &report.verdict.counts {
        let alike = report
            .clusters
            .iter()
            .filter(|cluster| cluster.stage == count.stage && cluster.plugin == count.plugin);
        for cluster in alike.take(CLUSTERS_PER_REASON) {
            if simulation.decisions >= limits.decisions {
                break;
            }
            fixes.extend(search(
                simulation,
                Goal::Placed,
                &cluster.name,
                DECISIONS_OF_CLUSTER,
            ));
        }
    }
    smallest(fixes, FIXES_OF_BINDING)
}

fn smallest(mut fixes: Vec<Fix>, count: usize) -> Vec<Fix> {
    fixes.sort_by(|a, b| a.size().cmp(&b.size()));
    fixes.dedup_by(|a, b| a.changes == b.changes);
    fixes.truncate(count);
    fixes
}

/// Searches for changes that reach the goal. The proposals come from the reasons why `cluster` does not have
/// the workload. Tries no further proposal after `decisions` decisions.
fn search(
    simulation: &mut Simulation<'_>,
    goal: Goal<'_>,
    cluster: &str,
    decisions: usize,
) -> Vec<Fix> {
    let end = simulation.decisions + decisions;
    let mut found: Vec<Fix> = Vec::new();
    let mut tried: Vec<Vec<Change>> = Vec::new();
    let mut queue: VecDeque<Vec<Change>> = VecDeque::from([Vec::new()]);
    while let Some(changes) = queue.pop_front() {
        let enough = found.iter().any(|fix| fix.changes.len() < changes.len());
        if enough || simulation.decisions >= end {
            break;
        }
        let Ok(explained) = simulation.explain(&changes) else {
            continue;
        };
        for proposal in proposals::for_cluster(cluster, &explained) {
            if simulation.decisions >= end {
                break;
            }
            let proposed = match proposal {
                Proposal::Changes(more) => {
                    let next: Vec<Change> = changes.iter().cloned().chain(more).collect();
                    if next.len() <= changes.len() || next.len() > MOST_CHANGES {
                        continue;
                    }
                    next
                }
                Proposal::Number(number, limit) => {
                    let fix = smallest_number(simulation, goal, &changes, &number, limit);
                    found.extend(fix.map(|fix| reduced(simulation, goal, fix)));
                    continue;
                }
            };
            let mut key = proposed.clone();
            key.sort_unstable();
            if tried.contains(&key) {
                continue;
            }
            tried.push(key);
            match decide(simulation, goal, &proposed) {
                Some(fix) => found.push(reduced(simulation, goal, fix)),
                None => queue.push_back(proposed),
            }
        }
    }
    found
}

/// Decides with the changes applied. Returns a fix if the decision reaches the goal.
fn decide(simulation: &mut Simulation<'_>, goal: Goal<'_>, changes: &[Change]) -> Option<Fix> {
    let outcome = simulation.decide(changes).ok()?;
    let result = goal.result(&outcome, simulation.divides())?;
    Some(Fix::new(changes.to_vec(), result))
}

/// Removes the unnecessary changes from a fix.
fn reduced(simulation: &mut Simulation<'_>, goal: Goal<'_>, mut fix: Fix) -> Fix {
    let mut index = 0;
    while fix.changes.len() > 1 && index < fix.changes.len() {
        let mut fewer = fix.changes.clone();
        fewer.remove(index);
        match decide(simulation, goal, &fewer) {
            Some(smaller) => fix = smaller,
            None => index += 1,
        }
    }
    fix
}

/// Returns the fix that reaches the goal and changes `number` by as little as possible. Doubles the distance from the
/// present value until the goal is reached, and then bisects the distance.
fn smallest_number(
    simulation: &mut Simulation<'_>,
    goal: Goal<'_>,
    changes: &[Change],
    number: &Number,
    limit: i64,
) -> Option<Fix> {
    let replaces = |change: &Change| {
        std::mem::discriminant(change) == std::mem::discriminant(&number.change(0))
    };
    if changes.len() >= MOST_CHANGES || changes.iter().any(replaces) {
        return None;
    }
    let from = number.from();
    let (span, sign) = if limit >= from {
        (limit.saturating_sub(from), 1)
    } else {
        (from.saturating_sub(limit), -1)
    };
    let mut at = |distance: i64| {
        let change = number.change(from + sign * distance);
        let next: Vec<Change> = changes.iter().cloned().chain([change]).collect();
        decide(simulation, goal, &next)
    };
    let (mut below, mut distance) = (0, 1);
    let mut fix = loop {
        if distance > span {
            return None;
        }
        if let Some(fix) = at(distance) {
            break fix;
        }
        if distance == span {
            return None;
        }
        below = distance;
        distance = distance.saturating_mul(2).min(span);
    };
    while distance - below > 1 {
        let middle = below + (distance - below) / 2;
        match at(middle) {
            Some(smaller) => {
                fix = smaller;
                distance = middle;
            }
            None => below = middle,
        }
    }
    Some(fix)
}
