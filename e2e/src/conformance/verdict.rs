//! Comparison of one decision of the engine with the expected decision.

use std::collections::BTreeMap;

use berth_engine::{Outcome, ScheduleError, ScheduledReason};

use super::corpus::{Expected, ExpectedTarget};

/// A decision of the engine that differs from the expected decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Id of the scenario.
    pub id: String,
    /// Description of the difference.
    pub what: String,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.id, self.what)
    }
}

/// Compares a decision of the engine with the expected decision.
///
/// # Errors
/// If the decisions differ.
pub fn judge(expected: &Expected, decided: &Result<Outcome, String>) -> Result<(), Mismatch> {
    compare(expected, decided).map_err(|what| Mismatch {
        id: expected.id.clone(),
        what,
    })
}

fn compare(expected: &Expected, decided: &Result<Outcome, String>) -> Result<(), String> {
    let outcome = decided.as_ref().map_err(|error| {
        format!(
            "expected {}, the binding was rejected: {error}",
            describe(expected)
        )
    })?;
    match &outcome.result {
        Ok(placement) => {
            let mut targets: Vec<ExpectedTarget> = placement
                .targets
                .iter()
                .map(|target| ExpectedTarget {
                    name: target.name.to_string(),
                    replicas: target.replicas,
                })
                .collect();
            targets.sort();
            let found = list(&targets);
            let conforms =
                targets == expected.clusters || expected.clusters_stable.as_ref() == Some(&targets);
            if expected.failure.is_some() || !conforms {
                return Err(format!("expected {}, got {found}", describe(expected)));
            }
            if placement.affinity.as_deref() != expected.affinity.as_deref() {
                return Err(format!(
                    "expected affinity {:?}, got {:?}",
                    expected.affinity, placement.affinity
                ));
            }
            Ok(())
        }
        Err(error) => {
            let kind = match error.reason() {
                ScheduledReason::NoClusterFit => "FitError",
                ScheduledReason::Unschedulable => "Unschedulable",
                _ => "Error",
            };
            let differs = || format!("expected {}, got {kind}: {error}", describe(expected));
            if expected.failure.as_deref() != Some(kind) {
                return Err(differs());
            }
            if let ScheduleError::NoFit(fit) = error {
                let reasons: BTreeMap<&str, &str> = fit.reasons().collect();
                return compare_reasons(&expected.reasons, &reasons);
            }
            if expected
                .message
                .as_deref()
                .is_some_and(|message| message != error.to_string())
            {
                return Err(differs());
            }
            Ok(())
        }
    }
}

fn compare_reasons(
    expected: &BTreeMap<String, Vec<String>>,
    found: &BTreeMap<&str, &str>,
) -> Result<(), String> {
    for (cluster, reasons) in expected {
        let reason = found.get(cluster.as_str()).copied().unwrap_or("no reason");
        if !reasons.iter().any(|expected| expected == reason) {
            return Err(format!(
                "expected one of {reasons:?} for {cluster}, got {reason:?}"
            ));
        }
    }
    match found
        .keys()
        .find(|cluster| !expected.contains_key(**cluster))
    {
        Some(cluster) => Err(format!(
            "expected no reason for {cluster}, got {:?}",
            found.get(cluster)
        )),
        None => Ok(()),
    }
}

fn describe(expected: &Expected) -> String {
    match &expected.failure {
        Some(failure) => format!(
            "{failure}: {}",
            expected.message.as_deref().unwrap_or("no cluster fits")
        ),
        None => list(&expected.clusters),
    }
}

fn list(targets: &[ExpectedTarget]) -> String {
    let parts: Vec<String> = targets
        .iter()
        .map(|t| format!("{}:{}", t.name, t.replicas))
        .collect();
    format!("[{}]", parts.join(" "))
}
