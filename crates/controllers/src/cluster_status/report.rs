//! Writing the status of a Cluster: only when it says something new, and never over what others have written into it.

use berth_api::Cluster;
use berth_api::cluster::ClusterStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

/// How often a write is tried when others write to the same Cluster.
const TRIES: usize = 5;

/// What was collected.
#[derive(Clone, Debug, Default)]
pub(super) struct News {
    /// Type, whether it is true, reason and message.
    pub(super) conditions: Vec<(&'static str, bool, String, String)>,
    /// Everything but the conditions; what is not there stays as it was.
    pub(super) collected: Option<ClusterStatus>,
}

/// Writes the news, if they are any; returns the Cluster as it is now.
pub(super) async fn write(
    client: &Client,
    cluster: &Cluster,
    news: &News,
) -> Result<Option<Cluster>, kube::Error> {
    let clusters: Api<Cluster> = Api::all(client.clone());
    let name = cluster.name_any();
    let mut current = cluster.clone();
    for _ in 0..TRIES {
        let Some(status) = changed(&current.status.clone().unwrap_or_default(), news) else {
            return Ok(None);
        };
        let patch = json!({
            "metadata": { "resourceVersion": current.metadata.resource_version },
            "status": status,
        });
        let parameters = PatchParams::default();
        match clusters
            .patch_status(&name, &parameters, &Patch::Merge(patch))
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            written => return written.map(Some),
        }
        match clusters.get_opt(&name).await? {
            Some(cluster) => current = cluster,
            None => return Ok(None),
        }
    }
    Ok(None)
}

/// The fields of the status that differ; none if nothing does.
fn changed(current: &ClusterStatus, news: &News) -> Option<Value> {
    let mut next = current.clone();
    if let Some(collected) = &news.collected {
        next.kubernetes_version
            .clone_from(&collected.kubernetes_version);
        next.api_enablements.clone_from(&collected.api_enablements);
        next.node_summary.clone_from(&collected.node_summary);
        next.resource_summary
            .clone_from(&collected.resource_summary);
    }
    for (kind, status, reason, message) in &news.conditions {
        set(&mut next.conditions, kind, *status, reason, message);
    }
    let mut fields = json!({});
    macro_rules! differs {
        ($($field:ident: $name:literal),*) => { $(
            if next.$field != current.$field {
                fields[$name] = replaced(
                    serde_json::to_value(&current.$field).unwrap_or_default(),
                    serde_json::to_value(&next.$field).unwrap_or_default(),
                );
            }
        )* };
    }
    differs!(
        kubernetes_version: "kubernetesVersion",
        api_enablements: "apiEnablements",
        conditions: "conditions",
        node_summary: "nodeSummary",
        resource_summary: "resourceSummary"
    );
    fields
        .as_object()
        .is_some_and(|f| !f.is_empty())
        .then_some(fields)
}

/// A merge patch that leaves exactly `next`: what `old` has and `next` has not is taken away.
fn replaced(old: Value, next: Value) -> Value {
    match (old, next) {
        (Value::Object(old), Value::Object(mut next)) => {
            for (key, value) in old {
                let kept = next.remove(&key);
                let patch = kept.map_or(Value::Null, |kept| replaced(value, kept));
                next.insert(key, patch);
            }
            Value::Object(next)
        }
        (_, next) => next,
    }
}

/// Sets a condition; its time is that of the last change of its status.
fn set(conditions: &mut Vec<Condition>, kind: &str, status: bool, reason: &str, message: &str) {
    let status = if status { "True" } else { "False" };
    let now = jiff::Timestamp::now();
    let now = Time(jiff::Timestamp::from_second(now.as_second()).unwrap_or(now));
    match conditions
        .iter_mut()
        .find(|condition| condition.type_ == kind)
    {
        Some(condition) => {
            if condition.status != status {
                status.clone_into(&mut condition.status);
                condition.last_transition_time = now;
            }
            reason.clone_into(&mut condition.reason);
            message.clone_into(&mut condition.message);
        }
        None => conditions.push(Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            last_transition_time: now,
            observed_generation: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use berth_api::cluster::ResourceSummary;

    use super::*;

    fn ready(status: bool, message: &str) -> News {
        News {
            conditions: vec![("Ready", status, "Reason".to_owned(), message.to_owned())],
            collected: None,
        }
    }

    #[test]
    fn what_is_not_new_is_not_written_and_what_others_say_stays() {
        let mut status = ClusterStatus::default();
        set(&mut status.conditions, "Theirs", true, "Reason", "theirs");
        set(&mut status.conditions, "Ready", true, "Reason", "fine");
        status.conditions[1].last_transition_time = Time(jiff::Timestamp::UNIX_EPOCH);
        assert_eq!(changed(&status, &ready(true, "fine")), None);

        let patch = changed(&status, &ready(true, "still fine")).unwrap();
        assert_eq!(patch["conditions"][0]["message"], "theirs");
        assert_eq!(
            patch["conditions"][1]["lastTransitionTime"],
            "1970-01-01T00:00:00Z"
        );

        let patch = changed(&status, &ready(false, "gone")).unwrap();
        assert_ne!(
            patch["conditions"][1]["lastTransitionTime"],
            "1970-01-01T00:00:00Z"
        );
        assert_eq!(patch.as_object().unwrap().len(), 1);
    }

    #[test]
    fn a_resource_that_is_gone_is_taken_away() {
        let status = ClusterStatus {
            resource_summary: Some(ResourceSummary {
                allocated: [("cpu".to_owned(), "1".into())].into(),
                allocatable: [("cpu".to_owned(), "4".into())].into(),
                ..ResourceSummary::default()
            }),
            ..ClusterStatus::default()
        };
        let mut collected = status.clone();
        collected
            .resource_summary
            .as_mut()
            .unwrap()
            .allocated
            .clear();
        let news = News {
            collected: Some(collected),
            ..News::default()
        };
        let patch = changed(&status, &news).unwrap();
        assert_eq!(patch["resourceSummary"]["allocated"], Value::Null);
        assert_eq!(patch["resourceSummary"]["allocatable"]["cpu"], "4");
    }
}
