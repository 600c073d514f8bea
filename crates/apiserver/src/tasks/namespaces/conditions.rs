//! The conditions of a namespace that is being deleted: what is left in it, and what could not be deleted. A pure function.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::clock;

/// The content of a namespace that is left after a round of deletion.
#[derive(Debug, Default)]
pub(super) struct Remaining {
    /// Number of objects of each resource, by `plural.group`.
    pub(super) resources: BTreeMap<String, usize>,
    /// Number of objects that each finalizer holds.
    pub(super) finalizers: BTreeMap<String, usize>,
    /// The first error of each resource whose objects could not be deleted.
    pub(super) failures: BTreeMap<String, String>,
}

/// A condition, the reason and message while all is well, and those of a problem if there is one.
struct Condition {
    kind: &'static str,
    well: (&'static str, &'static str),
    problem: Option<(&'static str, String)>,
}

fn listed(counts: &BTreeMap<String, usize>, verb: &str) -> Option<String> {
    let parts: Vec<String> = counts
        .iter()
        .map(|(name, count)| format!("{name} {verb} {count} resource instances"))
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn wanted(remaining: &Remaining) -> [Condition; 5] {
    let failed = remaining.failures.len();
    let errors: Vec<&str> = remaining.failures.values().map(String::as_str).collect();
    [
        Condition {
            kind: "NamespaceDeletionDiscoveryFailure",
            well: (
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            problem: None,
        },
        Condition {
            kind: "NamespaceDeletionGroupVersionParsingFailure",
            well: (
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            problem: None,
        },
        Condition {
            kind: "NamespaceDeletionContentFailure",
            well: (
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
            well: ("ContentRemoved", "All content successfully removed"),
            problem: listed(&remaining.resources, "has").map(|list| {
                (
                    "SomeResourcesRemain",
                    format!("Some resources are remaining: {list}"),
                )
            }),
        },
        Condition {
            kind: "NamespaceFinalizersRemaining",
            well: (
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            ),
            problem: listed(&remaining.finalizers, "in").map(|list| {
                (
                    "SomeFinalizersRemain",
                    format!("Some content in the namespace has finalizers remaining: {list}"),
                )
            }),
        },
    ]
}

/// Brings the conditions in `status` in line with what remains. Transition times follow changes of status only.
pub(super) fn update(status: &mut Value, remaining: &Remaining) {
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    for Condition {
        kind,
        well,
        problem,
    } in wanted(remaining)
    {
        let (state, reason, message) = match problem {
            Some((reason, message)) => ("True", reason, message),
            None => ("False", well.0, well.1.to_owned()),
        };
        let known = conditions.iter_mut().find(|known| known["type"] == kind);
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
            None => conditions.push(condition),
        }
    }
    status["conditions"] = Value::Array(conditions);
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
    fn what_is_left_is_named_and_cleared_again() {
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
        // A change of the message is no transition.
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
