//! The result of a diagnosis: the verdict in one sentence, the next action, and the stations.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::copies::CopyRow;
use crate::finding::{Finding, Reason, Station};
use crate::health::Health;
use crate::override_changes::OverrideChanges;

/// The diagnosis of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// The health: that of the worst finding, or `well` without findings.
    pub health: Health,
    /// The cause in one sentence, or how much of the workload works.
    pub verdict: String,
    /// The cause in one word. Absent if the workload is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The next action. Absent if none is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// The time since which it is so, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The stations, in order. Stations that were not looked at are missing.
    pub stations: Vec<StationReport>,
    /// The findings, the worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// The changes that override policies make for clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<OverrideChanges>,
    /// The copies, sorted by cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<CopyRow>,
    /// The newest warnings in the members that were looked at, by cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub warnings: BTreeMap<String, Vec<String>>,
}

/// The state of one station.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StationReport {
    /// The station.
    pub station: Station,
    /// The health at this station.
    pub health: Health,
    /// The state in one sentence.
    pub summary: String,
    /// The time since which it is so, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

impl Diagnosis {
    /// Creates a diagnosis from the findings and what each station reports. A station with findings has the health and the
    /// sentence of its worst finding.
    pub(crate) fn new(
        mut findings: Vec<Finding>,
        reports: Vec<StationReport>,
        copies: Vec<CopyRow>,
    ) -> Self {
        findings.sort_by_key(|found| (std::cmp::Reverse(found.health), found.station));
        let stations = reports.into_iter().map(|report| {
            let station = report.station;
            let mut of_station = findings.iter().filter(|found| found.station == station);
            let worst = of_station.next();
            let more = of_station.filter(|found| Some(found.health) == worst.map(|of| of.health));
            match worst {
                None => report,
                Some(found) => StationReport {
                    station,
                    health: found.health,
                    summary: with_more(&found.message, more.count()),
                    since: found.since,
                },
            }
        });
        let stations: Vec<StationReport> = stations.collect();
        let Some(worst) = findings.first() else {
            return Self {
                verdict: well(&copies, &stations),
                stations,
                copies,
                ..Self::default()
            };
        };
        // A step that waits makes the later steps wait.
        let more = match worst.health {
            Health::Waiting => 0,
            health => findings
                .iter()
                .skip(1)
                .filter(|found| found.health == health)
                .count(),
        };
        let mut verdict = with_more(&worst.message, more);
        if let Some(done) = done_before(&stations, worst.station) {
            verdict.push_str("; ");
            verdict.push_str(&done);
        }
        Self {
            health: worst.health,
            verdict,
            reason: Some(worst.reason),
            fix: worst.fix.clone(),
            since: worst.since,
            stations,
            copies,
            findings,
            ..Self::default()
        }
    }

    /// Replaces the next action if the worst finding has this reason, for example by a change that was tried.
    #[must_use]
    pub fn with_fix_for(mut self, reason: Reason, fix: Option<String>) -> Self {
        if self.reason == Some(reason) && fix.is_some() {
            self.fix = fix;
        }
        self
    }

    /// Returns the ready and the wanted replicas of all copies that stay. `None` for a workload without replicas. The
    /// replicas in a cluster that is not ready do not count as ready.
    pub fn replicas(&self) -> Option<(i64, i64)> {
        let mut total = None;
        for copy in self.copies.iter().filter(|copy| !copy.leaving) {
            let Some(wanted) = copy.wanted else { continue };
            let (ready, all) = total.unwrap_or((0, 0));
            total = Some((ready + copy.known_ready().min(wanted), all + wanted));
        }
        total
    }
}

impl StationReport {
    /// Creates the report of a station.
    pub(crate) fn new(station: Station, health: Health, summary: impl Into<String>) -> Self {
        Self {
            station,
            health,
            summary: summary.into(),
            since: None,
        }
    }
}

fn with_more(message: &str, more: usize) -> String {
    match more {
        0 => message.to_owned(),
        1 => format!("{message}, and 1 more problem"),
        more => format!("{message}, and {more} more problems"),
    }
}

/// Returns the sentence about a workload that is well.
fn well(copies: &[CopyRow], stations: &[StationReport]) -> String {
    let staying: Vec<&CopyRow> = copies.iter().filter(|copy| !copy.leaving).collect();
    let (ready, wanted) = staying.iter().fold((0, 0), |(ready, wanted), copy| {
        let of_copy = copy.wanted.unwrap_or(0);
        (ready + copy.known_ready().min(of_copy), wanted + of_copy)
    });
    let places = match &staying[..] {
        [] => {
            let mut stations = stations.iter();
            let scheduling = stations.find(|report| report.station == Station::Scheduling);
            return scheduling.map_or_else(String::new, |report| report.summary.clone());
        }
        [only] => only.cluster.clone(),
        many => format!("{} clusters", many.len()),
    };
    if wanted == 0 {
        return format!("applied in {places}");
    }
    format!("{ready} of {wanted} replicas are ready in {places}")
}

/// Returns the steps that are done before a station.
fn done_before(stations: &[StationReport], station: Station) -> Option<String> {
    let is_done = |of: Station| {
        let mut reports = stations.iter();
        of < station && reports.any(|report| report.station == of && report.health == Health::Well)
    };
    match (is_done(Station::Scheduling), is_done(Station::Apply)) {
        (true, true) => Some("placed and applied".to_owned()),
        (true, false) if station == Station::Apply => Some("placed".to_owned()),
        _ => None,
    }
}
