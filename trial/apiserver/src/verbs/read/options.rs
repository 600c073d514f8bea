//! Validation of the parameters of lists and watches.

use serde_json::json;

use crate::error::{ApiError, Cause};
use crate::query::Query;

const MATCH: &str = "resourceVersionMatch";
const INITIAL: &str = "sendInitialEvents";

/// Refuses invalid combinations of list parameters.
pub(super) fn check_list(query: &Query) -> Result<(), ApiError> {
    query.watch_timeout()?;
    let version = query.get("resourceVersion");
    let continues = query.get("continue").is_some();
    let mut causes = Vec::new();
    let mut forbidden = |field: &str, detail: &str| causes.push(Cause::forbidden(field, detail));
    if let Some(wanted) = query.get(MATCH) {
        if version.is_none() {
            let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            forbidden(MATCH, detail);
        }
        if continues {
            forbidden(
                MATCH,
                "resourceVersionMatch is forbidden when continue is provided",
            );
        }
        match wanted {
            "Exact" if version == Some("0") => {
                let detail =
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                forbidden(MATCH, detail);
            }
            "Exact" | "NotOlderThan" => {}
            other => causes.push(not_supported(other, &["Exact", "NotOlderThan", ""])),
        }
    }
    if query.has(INITIAL) {
        causes.push(Cause::forbidden(
            INITIAL,
            "sendInitialEvents is forbidden for list",
        ));
    }
    refuse(causes)
}

/// Refuses invalid combinations of watch parameters.
pub(crate) fn check_watch(query: &Query) -> Result<(), ApiError> {
    let wanted = query.get(MATCH);
    let mut causes = Vec::new();
    if query.has(INITIAL) {
        if wanted != Some("NotOlderThan") {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            causes.push(Cause::forbidden(MATCH, detail));
        }
    } else if wanted.is_some() {
        let detail =
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        causes.push(Cause::forbidden(MATCH, detail));
    }
    if let Some(other) = wanted {
        if other != "NotOlderThan" {
            causes.push(not_supported(other, &["NotOlderThan"]));
        }
        if query.get("continue").is_some() {
            let detail = "resourceVersionMatch is forbidden when continue is provided";
            causes.push(Cause::forbidden(MATCH, detail));
        }
    }
    refuse(causes)
}

fn not_supported(value: &str, allowed: &[&str]) -> Cause {
    let allowed: Vec<String> = allowed.iter().map(|&a| a.to_owned()).collect();
    Cause::not_supported(MATCH, &json!(value), &allowed)
}

fn refuse(causes: Vec<Cause>) -> Result<(), ApiError> {
    if causes.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", causes))
}
