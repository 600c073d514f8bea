//! The conditions of a terminating namespace, which report remaining content and failed deletions.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::clock;

/// The remaining content of a namespace after a round of deletion.
#[derive(Debug, Default)]
pub(super) struct Remaining {
    /// The number of objects of each resource. The key is `plural.group`.
    pub(super) resources: BTreeMap<String, usize>,
    /// The number of objects with each finalizer.
    pub(super) finalizers: BTreeMap<String, usize>,
    /// The first error for each resource whose objects could not be deleted.
    pub(super) failures: BTreeMap<String, String>,
}

/// A condition. `default` is its reason and message if there is no problem.
struct Condition {
    kind: &'static str,
    default: (&'static str, &'static str),
    problem: Option<(&'static str, String)>,
}

/// Joins the numbers of objects into a message. Returns `None` if there are none.
fn summary(counts: &BTreeMap<String, usize>, verb: &str) -> Option<String> {
    let parts: Vec<String> = counts
        .iter()
        .map(|(name, count)| format!("{name} {verb} {count} resource instances"))
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn conditions(remaining: &Remaining) -> [Condition; 5] {
    let failed = remaining.failures.len();
    let errors: Vec<&str> = remaining.failures.values().map(String::as_str).collect();
    [
        Condition {
            kind: "NamespaceDeletionDiscoveryFailure",
            default: (
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            problem: None,
        },
        Condition {
            kind: "NamespaceDeletionGroupVersionParsingFailure",
            default: (
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            problem: None,
        },
        Condition {
            kind: "NamespaceDeletionContentFailure",
            default: (
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
            problem: (failed > 0).then(|| {
                let errors = errors.join(", ");
                (
                    "ContentDeletionFailed",
                    format!("Failed to delete all resource types, {failed} remaining: {errors}"),
                )
            }),
        },
        Condition {
            kind: "NamespaceContentRemaining",
            default: ("ContentRemoved", "All content successfully removed"),
            problem: summary(&remaining.resources, "has").map(|list| {
                (
                    "SomeResourcesRemain",
                    format!("Some resources are remaining: {list}"),
                )
            }),
        },
        Condition {
            kind: "NamespaceFinalizersRemaining",
            default: (
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            ),
            problem: summary(&remaining.finalizers, "in").map(|list| {
                (
                    "SomeFinalizersRemain",
                    format!("Some content in the namespace has finalizers remaining: {list}"),
                )
            }),
        },
    ]
}

/// Updates the conditions in a status. The transition time of a condition changes only with the status of the
/// condition.
pub(super) fn update(status: &mut Value, remaining: &Remaining) {
    let mut all = status["conditions"].as_array().cloned().unwrap_or_default();
    for Condition {
        kind,
        default,
        problem,
    } in conditions(remaining)
    {
        let (state, reason, message) = match problem {
            Some((reason, message)) => ("True", reason, message),
            None => ("False", default.0, default.1.to_owned()),
        };
        let known = all.iter_mut().find(|known| known["type"] == kind);
        let since = known
            .as_ref()
            .filter(|known| known["status"] == state)
            .map_or_else(
                || json!(clock::now()),
                |known| known["lastTransitionTime"].clone(),
            );
        let condition = json!({"type": kind, "status": state, "reason": reason, "message": message,
            "lastTransitionTime": since});
        match known {
            Some(known) => *known = condition,
            None => all.push(condition),
        }
    }
    status["conditions"] = Value::Array(all);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(status: &Value) -> Vec<(&str, &str, &str)> {
        let conditions = status["conditions"].as_array().unwrap().iter();
        conditions
            .map(|c| {
                (
                    c["type"].as_str().unwrap(),
                    c["status"].as_str().unwrap(),
                    c["message"].as_str().unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn remaining_content_is_reported_and_cleared() {
        let mut status = json!({"phase": "Terminating", "conditions": [
            {"type": "Other", "status": "True", "message": "m", "lastTransitionTime": "t"}]});
        let counts = |name: &str, count| BTreeMap::from([(name.to_owned(), count)]);
        let mut remaining = Remaining {
            resources: counts("pods.", 2),
            finalizers: counts("a.b/c", 1),
            failures: BTreeMap::from([("pods.".to_owned(), "refused".to_owned())]),
        };
        update(&mut status, &remaining);
        assert_eq!(
            shown(&status)[3..],
            [
                (
                    "NamespaceDeletionContentFailure",
                    "True",
                    "Failed to delete all resource types, 1 remaining: refused"
                ),
                (
                    "NamespaceContentRemaining",
                    "True",
                    "Some resources are remaining: pods. has 2 resource instances"
                ),
                (
                    "NamespaceFinalizersRemaining",
                    "True",
                    "Some content in the namespace has finalizers remaining: a.b/c in 1 resource instances"
                ),
            ]
        );
        // A new message does not change the transition time.
        status["conditions"][4]["lastTransitionTime"] = json!("before");
        remaining.resources = counts("pods.", 1);
        update(&mut status, &remaining);
        assert_eq!(status["conditions"][4]["lastTransitionTime"], "before");
        update(&mut status, &Remaining::default());
        assert!(
            shown(&status)[1..]
                .iter()
                .all(|(_, state, _)| *state == "False")
        );
        assert_ne!(status["conditions"][4]["lastTransitionTime"], "before");
        assert_eq!(status["conditions"].as_array().unwrap().len(), 6);
    }
}
