//! The search for the smallest changes with which a workload is placed, or is placed on a cluster.
//!
//! Each proposal is applied, and the engine decides about the changed world. A fix is reported only if that decision
//! has the wanted result. If it does not, the new reason leads to further proposals, breadth first, so fixes with
//! fewer changes are found first.

use std::collections::VecDeque;

use berth_core::{Outcome, Stage};

use crate::change::Change;
use crate::fix::{Fix, Share};
use crate::proposals::{self, Number, Proposal};
use crate::report::Report;
use crate::world::World;

/// The most changes in a fix.
const MOST_CHANGES: usize = 4;
/// The fixes to report for each cluster.
const FIXES_OF_CLUSTER: usize = 3;
/// The fixes to report for a binding that is not placed.
const FIXES_OF_BINDING: usize = 5;
/// The clusters with equal reasons whose fixes are compared.
const CLUSTERS_PER_REASON: usize = 8;
/// The decisions for one cluster.
const DECISIONS_OF_CLUSTER: usize = 60;

/// Bounds of the search.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The decisions about changed worlds in total.
    pub decisions: usize,
    /// The clusters to search fixes for; `None` for all, as far as the decisions suffice.
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
    /// Returns the limits of an explanation without a search.
    pub fn none() -> Self {
        Self {
            decisions: 0,
            clusters: Some(Vec::new()),
        }
    }
}

/// The wanted result.
#[derive(Clone, Copy, Debug)]
enum Goal<'a> {
    /// The cluster has the workload.
    On(&'a str),
    /// Any cluster has the workload.
    Placed,
}

impl Goal<'_> {
    fn result(self, outcome: &Outcome, divides: bool) -> Option<Vec<Share>> {
        let placement = outcome.result.as_ref().ok()?;
        let has = |target: &berth_core::Target| !divides || target.replicas > 0;
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

/// Adds the fixes to the report: for the binding if it is not placed, and for the clusters without the workload. The
/// clusters in question come first, so that the decisions suffice for them.
pub(crate) fn add_fixes(report: &mut Report, world: &mut World<'_>, limits: &Limits) {
    if limits.clusters.is_some() {
        add_fixes_of_clusters(report, world, limits);
    }
    if !report.is_placed() {
        report.fixes = fixes_of_binding(report, world, limits);
    }
    if limits.clusters.is_none() {
        add_fixes_of_clusters(report, world, limits);
    }
}

fn add_fixes_of_clusters(report: &mut Report, world: &mut World<'_>, limits: &Limits) {
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
        if world.decisions >= limits.decisions {
            skipped += 1;
            continue;
        }
        let fixes = search(world, Goal::On(&name), &name, DECISIONS_OF_CLUSTER);
        if let Some(cluster) = report.clusters.iter_mut().find(|c| c.name == name) {
            cluster.fixes = smallest(fixes, FIXES_OF_CLUSTER);
        }
    }
    if skipped > 0 {
        report.notes.push(format!(
            "what would change it was not searched for {skipped} clusters; name one to search it"
        ));
    }
}

fn fixes_of_binding(report: &Report, world: &mut World<'_>, limits: &Limits) -> Vec<Fix> {
    let mut fixes: Vec<Fix> = Vec::new();
    for count in &report.verdict.counts {
        let alike = report
            .clusters
            .iter()
            .filter(|cluster| cluster.stage == count.stage && cluster.plugin == count.plugin);
        for cluster in alike.take(CLUSTERS_PER_REASON) {
            if world.decisions >= limits.decisions {
                break;
            }
            fixes.extend(search(
                world,
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

/// Searches changes that have the wanted result, by the reasons that keep the workload out of `cluster`.
fn search(world: &mut World<'_>, goal: Goal<'_>, cluster: &str, decisions: usize) -> Vec<Fix> {
    let end = world.decisions + decisions;
    let mut found: Vec<Fix> = Vec::new();
    let mut tried: Vec<Vec<Change>> = Vec::new();
    let mut queue: VecDeque<Vec<Change>> = VecDeque::from([Vec::new()]);
    while let Some(changes) = queue.pop_front() {
        let enough = found.iter().any(|fix| fix.changes.len() < changes.len());
        if enough || world.decisions >= end {
            break;
        }
        let Ok(explained) = world.explain(&changes) else {
            continue;
        };
        for proposal in proposals::for_cluster(cluster, &explained) {
            if world.decisions >= end {
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
                    let fix = smallest_number(world, goal, &changes, &number, limit);
                    found.extend(fix.map(|fix| reduced(world, goal, fix)));
                    continue;
                }
            };
            let mut key = proposed.clone();
            key.sort_unstable();
            if tried.contains(&key) {
                continue;
            }
            tried.push(key);
            match decide(world, goal, &proposed) {
                Some(fix) => found.push(reduced(world, goal, fix)),
                None => queue.push_back(proposed),
            }
        }
    }
    found
}

/// Decides with changes; returns the fix if the result is the wanted one.
fn decide(world: &mut World<'_>, goal: Goal<'_>, changes: &[Change]) -> Option<Fix> {
    let outcome = world.decide(changes).ok()?;
    let result = goal.result(&outcome, world.divides())?;
    Some(Fix::new(changes.to_vec(), result))
}

/// Returns the fix without changes that are not needed.
fn reduced(world: &mut World<'_>, goal: Goal<'_>, mut fix: Fix) -> Fix {
    let mut index = 0;
    while fix.changes.len() > 1 && index < fix.changes.len() {
        let mut fewer = fix.changes.clone();
        fewer.remove(index);
        match decide(world, goal, &fewer) {
            Some(smaller) => fix = smaller,
            None => index += 1,
        }
    }
    fix
}

/// Returns the value of a number nearest to the present one with which the result is the wanted one. Doubles the
/// distance until it is, and then bisects.
fn smallest_number(
    world: &mut World<'_>,
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
        decide(world, goal, &next)
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
