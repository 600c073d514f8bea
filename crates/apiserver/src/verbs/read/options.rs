//! What lists and watches may ask for together. Knows only the query.

use serde_json::json;

use crate::error::{ApiError, Cause};
use crate::http::query::Query;

const MATCH: &str = "resourceVersionMatch";
const INITIAL: &str = "sendInitialEvents";

/// Refuses combinations for a list that make no sense.
pub(super) fn check_list(query: &Query) -> Result<(), ApiError> {
    query.lasts()?;
    let version = query.get("resourceVersion");
    let goes_on = query.get("continue").is_some();
    let mut causes = Vec::new();
    let mut forbidden = |field: &str, why: &str| causes.push(Cause::forbidden(field, why));
    if let Some(wanted) = query.get(MATCH) {
        if version.is_none() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            forbidden(MATCH, why);
        }
        if goes_on {
            forbidden(
                MATCH,
                "resourceVersionMatch is forbidden when continue is provided",
            );
        }
        match wanted {
            "Exact" if version == Some("0") => {
                let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                forbidden(MATCH, why);
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

/// Refuses combinations for a watch that make no sense.
pub(crate) fn check_watch(query: &Query) -> Result<(), ApiError> {
    let wanted = query.get(MATCH);
    let mut causes = Vec::new();
    if query.has(INITIAL) {
        if wanted != Some("NotOlderThan") {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            causes.push(Cause::forbidden(MATCH, why));
        }
    } else if wanted.is_some() {
        let why =
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        causes.push(Cause::forbidden(MATCH, why));
    }
    if let Some(other) = wanted {
        if other != "NotOlderThan" {
            causes.push(not_supported(other, &["NotOlderThan"]));
        }
        if query.get("continue").is_some() {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            causes.push(Cause::forbidden(MATCH, why));
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
