//! `berth status` with a namespace: the workloads of a control plane that are not well, the worst first.

use std::fmt::Write as _;
use std::io;

use berth_diagnosis::{Health, HealthCounts, WorkloadRow};
use berth_plan::control_plane_lists::placement_resources;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::Api;
use serde::Serialize;

use super::without_policy::{self, UnclaimedWorkload};
use super::{Output, StatusArgs, StatusError};
use crate::output;
use crate::workloads::Workloads;
use crate::workloads::table::{Fixes, Layout, table};

/// Version of the serialized list. A field keeps its meaning within a version.
const API_VERSION: &str = "status.berth.io/v1";

/// Maximum number of workloads without a policy in a text.
const UNCLAIMED: usize = 10;

/// The listed workloads.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WorkloadList {
    api_version: &'static str,
    kind: &'static str,
    /// Time of the diagnosis.
    time: Timestamp,
    /// The numbers of all workloads by health, also of those that are not listed.
    counts: HealthCounts,
    /// The listed workloads, the worst first.
    rows: Vec<WorkloadRow>,
    /// The workloads that no policy propagates.
    without_policy: Vec<UnclaimedWorkload>,
    /// The reason why workloads without a policy are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    without_policy_error: Option<String>,
    /// The namespace, or `None` for all.
    #[serde(skip)]
    namespace: Option<String>,
}

/// Reads the workloads of a namespace, or all workloads.
///
/// # Errors
/// When the control plane cannot be read, or the namespace does not exist.
pub(super) async fn read(
    args: &StatusArgs,
    namespace: Option<&str>,
) -> Result<WorkloadList, StatusError> {
    let client = args.control_plane.client(&placement_resources()).await?;
    let workloads = Workloads::list(&client, namespace).await?;
    if let Some(namespace) = namespace
        && workloads.bindings.is_empty()
        && !exists(&client, namespace).await
    {
        return Err(StatusError::NoNamespace(namespace.to_owned()));
    }
    let unclaimed = without_policy::read(&client, namespace, &workloads.bindings).await;
    let (without_policy, without_policy_error) = match unclaimed {
        Ok(found) => (found, None),
        Err(reason) => (Vec::new(), Some(reason)),
    };
    let now = Timestamp::now();
    let (mut rows, counts) = workloads.rows(now);
    if !args.all {
        rows.retain(|row| row.health != Health::Well);
    }
    Ok(WorkloadList {
        api_version: API_VERSION,
        kind: "WorkloadList",
        time: now,
        counts,
        rows,
        without_policy,
        without_policy_error,
        namespace: namespace.map(str::to_owned),
    })
}

/// Reports whether a namespace exists. A user without the right to read it is not told that it is missing.
async fn exists(client: &Client, namespace: &str) -> bool {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    !matches!(namespaces.get_opt(namespace).await, Ok(None))
}

impl WorkloadList {
    /// Reports whether a person has to look at a workload.
    pub(super) fn needs_attention(&self) -> bool {
        let mut healths = Health::WORST_FIRST.into_iter();
        let is_bad = healths.any(|health| health.needs_attention() && self.counts.of(health) > 0);
        is_bad || !self.without_policy.is_empty()
    }

    /// Formats the list.
    pub(super) fn text(&self, format: Output) -> io::Result<String> {
        match format {
            Output::Text => Ok(self.lines(output::terminal_width())),
            Output::Json | Output::Yaml => format.serialize(self),
        }
    }

    fn lines(&self, width: Option<usize>) -> String {
        let mut text = format!("{}\n", self.counts);
        if self.counts == HealthCounts::default() {
            let place = match &self.namespace {
                Some(namespace) => format!("in namespace {namespace}"),
                None => "of this control plane".to_owned(),
            };
            let _ = writeln!(text, "no policy has selected a resource {place}");
            self.unclaimed_lines(&mut text);
            return text;
        }
        if !self.rows.is_empty() {
            let layout = Layout {
                title: "WORKLOAD",
                fixes: Fixes::Shown,
                width,
            };
            text.push('\n');
            text.push_str(&table(&self.rows, layout, self.time));
        }
        let shown = self.rows.iter().filter(|row| row.health == Health::Well);
        match self.counts.well - shown.count().min(self.counts.well) {
            0 => {}
            1 => text.push_str("\n1 workload that is well is not listed: --all lists it\n"),
            hidden => {
                let _ = writeln!(
                    text,
                    "\n{hidden} workloads that are well are not listed: --all lists them"
                );
            }
        }
        self.unclaimed_lines(&mut text);
        text
    }

    /// Writes the workloads without a policy.
    fn unclaimed_lines(&self, text: &mut String) {
        if let Some(reason) = &self.without_policy_error {
            let _ = writeln!(text, "\nworkloads without a policy are not known: {reason}");
        }
        let Some(first) = self.without_policy.first() else {
            return;
        };
        let count = match self.without_policy.len() {
            1 => "1 workload has no policy, and stays".to_owned(),
            count => format!("{count} workloads have no policy, and stay"),
        };
        let _ = writeln!(text, "\n{count} in the control plane:");
        for workload in self.without_policy.iter().take(UNCLAIMED) {
            let UnclaimedWorkload {
                namespace,
                kind,
                name,
                ..
            } = workload;
            let _ = writeln!(text, "  {namespace}/{kind} {name}");
        }
        if let more @ 1.. = self.without_policy.len().saturating_sub(UNCLAIMED) {
            let _ = writeln!(text, "  and {more} more");
        }
        let kind = first.kind.to_lowercase();
        let _ = writeln!(
            text,
            "`berth explain {kind}/{} -n {}` tells why",
            first.name, first.namespace
        );
    }
}

#[cfg(test)]
mod tests {
    use berth_api::ResourceBinding;
    use berth_test_transcripts::{Transcript, assert_snapshot};
    use serde_json::{Value, json};

    use super::*;

    /// Returns the list of workloads with these numbers of ready replicas, of two each. A workload without a number is
    /// a dependency.
    fn list(workloads: &[(&str, Option<i64>)], hide: Option<Health>) -> WorkloadList {
        let binding = |(name, ready): &(&str, Option<i64>)| {
            let health = if *ready == Some(2) {
                "Healthy"
            } else {
                "Unhealthy"
            };
            let (kind, status) = match ready {
                Some(ready) => (
                    "Deployment",
                    json!({ "replicas": 2, "readyReplicas": ready }),
                ),
                None => ("ConfigMap", Value::Null),
            };
            let mut binding = json!({
                "metadata": { "name": name, "namespace": "shop" },
                "spec": { "resource": { "apiVersion": "v1", "kind": kind, "namespace": "shop", "name": name } },
                "status": { "lastScheduledTime": "2026-05-01T10:00:00Z", "aggregatedStatus": [
                    { "clusterName": "m1", "applied": true, "health": health, "status": status }] },
            });
            let clusters = json!([{ "name": "m1", "replicas": ready.map_or(0, |_| 2) }]);
            if ready.is_some() {
                binding["spec"]["replicas"] = json!(2);
                binding["spec"]["placement"] = json!({});
                binding["spec"]["clusters"] = clusters;
            } else {
                binding["spec"]["requiredBy"] = json!([{ "name": "web", "clusters": clusters }]);
            }
            let binding: ResourceBinding = serde_json::from_value(binding).unwrap();
            binding.into()
        };
        let cluster = json!({ "metadata": { "name": "m1" }, "spec": { "syncMode": "Push" },
            "status": { "conditions": [{ "type": "Ready", "status": "True", "reason": "r", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
        let workloads = Workloads {
            clusters: vec![serde_json::from_value(cluster).unwrap()],
            bindings: workloads.iter().map(binding).collect(),
        };
        let time = "2026-05-01T11:00:00Z".parse().unwrap();
        let (mut rows, counts) = workloads.rows(time);
        rows.retain(|row| Some(row.health) != hide);
        WorkloadList {
            api_version: API_VERSION,
            kind: "WorkloadList",
            time,
            counts,
            rows,
            without_policy: Vec::new(),
            without_policy_error: None,
            namespace: Some("shop".to_owned()),
        }
    }

    fn unclaimed(count: usize) -> WorkloadList {
        let workload = |number: usize| UnclaimedWorkload {
            namespace: "shop".to_owned(),
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            name: format!("w{number:02}"),
        };
        WorkloadList {
            without_policy: (0..count).map(workload).collect(),
            ..list(&[("a", Some(2))], Some(Health::Well))
        }
    }

    #[test]
    fn workloads_that_are_not_well_come_first() {
        let mut lists = Transcript::new();
        let hide = Some(Health::Well);
        let all = [
            ("a", Some(2)),
            ("b", Some(1)),
            ("c", Some(0)),
            ("d", None),
            ("e", Some(2)),
        ];
        for (about, list) in [
            ("some are not well", list(&all, hide)),
            ("all are listed", list(&all, None)),
            ("one is well", list(&all[..1], hide)),
            ("there are none", list(&[], hide)),
            ("one has no policy", unclaimed(1)),
            ("many have no policy", unclaimed(12)),
        ] {
            lists.about(&format!(
                "{about}, needs attention: {}",
                list.needs_attention()
            ));
            lists.lines(&list.lines(None));
        }
        lists.about("JSON");
        lists.lines(&list(&all, hide).text(Output::Json).unwrap());
        assert_snapshot!(lists);
    }
}
