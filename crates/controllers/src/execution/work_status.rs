//! The status of a Work.

use berth_api::binding::ResourceHealth;
use berth_api::well_known::{CONDITION_APPLIED, CONDITION_DISPATCHING};
use berth_api::work::{ManifestStatus, ResourceIdentifier, WorkStatus};
use berth_api::{Work, condition_message};
use serde_json::Value;

use crate::condition;
use crate::interpreter::{is_healthy, kind_of, reflect};

/// How applying went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// All manifests are in the member.
    All,
    /// Some are not.
    Failed {
        /// How many are.
        done: usize,
        /// Why the others are not.
        reasons: Vec<String>,
    },
}

/// What became of a manifest when it was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was in the member already.
    Unchanged,
    /// It was written.
    Written,
    /// It is not in the member, for this reason.
    Failed(String),
}

impl Fate {
    pub(super) fn reason(&self) -> Option<String> {
        match self {
            Self::Failed(reason) => Some(reason.clone()),
            Self::Unchanged | Self::Written => None,
        }
    }
}

/// What is new about a Work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct News {
    /// Whether its manifests are sent to the member.
    pub dispatching: Option<bool>,
    /// How applying went, where it was tried.
    pub applied: Option<Applied>,
    /// What became of each manifest, where that was tried.
    pub fates: Vec<Fate>,
    /// The objects that were seen in the member, by manifest; nothing where none was.
    pub seen: Vec<Option<Value>>,
}

/// What a change of the status tells users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// `Dispatching` has changed.
    pub dispatching: bool,
    /// `Applied` has changed.
    pub applied: bool,
    /// What the member reports has changed.
    pub reflected: bool,
}

impl Told {
    /// Whether there is anything to write.
    pub fn anything(self) -> bool {
        self.dispatching || self.applied || self.reflected
    }
}

/// The new status of a Work, and what of it is new.
pub fn next_status(work: &Work, news: &News) -> (WorkStatus, Told) {
    let mut status = work.status.clone().unwrap_or_default();
    let mut told = Told::default();
    let conditions = &mut status.conditions;
    if let Some(dispatching) = news.dispatching {
        let (reason, message) = if dispatching {
            (
                "Dispatching",
                "Work is being dispatched to member clusters.",
            )
        } else {
            (
                "SuspendDispatching",
                "Work dispatching is in a suspended state.",
            )
        };
        told.dispatching = condition::set(
            conditions,
            CONDITION_DISPATCHING,
            dispatching,
            reason,
            message,
        );
    }
    match &news.applied {
        None => {}
        Some(Applied::All) => {
            let message = "Manifest has been successfully applied";
            told.applied = condition::set(
                conditions,
                CONDITION_APPLIED,
                true,
                "AppliedSuccessful",
                message,
            );
        }
        Some(Applied::Failed { done, reasons }) => {
            let total = work.spec.workload.manifests.len();
            let reasons = reasons.join("; ");
            let message = format!("Failed to apply all manifests ({done}/{total}): {reasons}");
            let message = condition_message::bounded(message);
            told.applied = condition::set(
                conditions,
                CONDITION_APPLIED,
                false,
                "AppliedFailed",
                &message,
            );
        }
    }
    let statuses: Vec<ManifestStatus> = news
        .seen
        .iter()
        .enumerate()
        .zip(&work.spec.workload.manifests)
        .filter_map(|((ordinal, object), manifest)| {
            manifest_status(ordinal, manifest, object.as_ref()?)
        })
        .collect();
    if !statuses.is_empty() && statuses != status.manifest_statuses {
        status.manifest_statuses = statuses;
        told.reflected = true;
    }
    (status, told)
}

/// Returns what is reported of a manifest. The manifest names the object, because the member may answer with another name.
fn manifest_status(ordinal: usize, manifest: &Value, object: &Value) -> Option<ManifestStatus> {
    let (api_version, kind) = kind_of(manifest);
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let text = |pointer: &str| {
        let value = manifest.pointer(pointer).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    Some(ManifestStatus {
        identifier: ResourceIdentifier {
            ordinal: i64::try_from(ordinal).ok()?,
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            resource: String::new(),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
        },
        status: reflect(object),
        health: Some(if is_healthy(object) {
            ResourceHealth::Healthy
        } else {
            ResourceHealth::Unhealthy
        }),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn work() -> Work {
        serde_json::from_value(
            json!({"metadata": {"name": "w"}, "spec": {"workload": {"manifests": [{}, {
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}}]}}}),
        )
        .unwrap()
    }

    #[test]
    fn what_is_told_once_is_not_told_again() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "of another", "namespace": "n"}});
        let news = News {
            dispatching: Some(true),
            applied: Some(Applied::All),
            seen: vec![None, Some(object)],
            ..News::default()
        };
        let mut work = work();
        let (status, told) = next_status(&work, &news);
        assert!(told.dispatching && told.applied && told.reflected);
        assert_eq!(
            json!(status.manifest_statuses),
            json!([{"health": "Healthy", "identifier": {
            "ordinal": 1, "version": "v1", "kind": "ConfigMap", "resource": "", "namespace": "n", "name": "c"}}])
        );
        work.status = Some(status);
        assert!(!next_status(&work, &news).1.anything());
        let unseen = News {
            seen: vec![None, None],
            ..News::default()
        };
        assert!(!next_status(&work, &unseen).1.anything());
    }

    #[test]
    fn failures_say_how_many_and_why() {
        let news = News {
            applied: Some(Applied::Failed {
                done: 1,
                reasons: vec!["no".to_owned()],
            }),
            ..News::default()
        };
        let (status, _) = next_status(&work(), &news);
        assert_eq!(
            status.conditions[0].message,
            "Failed to apply all manifests (1/2): no"
        );
        assert_eq!(status.conditions[0].reason, "AppliedFailed");
    }
}
