//! `berth status` without a namespace: shows the control plane that `berth up` runs, and its members.

use std::time::Duration;

use berth_api::well_known::CONDITION_READY;
use berth_api::{Cluster, condition};
use berth_component_base::kube_client::{self, Target};
use berth_component_base::user_agent::Component;
use berth_up::instance::Record;
use berth_up::kubeconfig::CONTEXT;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use serde::Serialize;

use super::{Output, StatusError};
use crate::columns;
use crate::control_plane::{self, Instance, InstanceArgs};

/// Timeout of the API server's response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Status of the control plane, as printed.
#[derive(Debug, Serialize)]
struct Status {
    #[serde(flatten)]
    record: Record,
    members: Vec<Member>,
}

/// Status of a member, from its Cluster object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Member {
    name: String,
    api_server: String,
    ready: String,
    nodes: String,
}

/// Returns the status as text.
///
/// # Errors
/// When no control plane is running, or the control plane does not respond.
pub(super) async fn status(args: &InstanceArgs, output: Output) -> Result<String, StatusError> {
    let Instance { kubeconfig, record } = control_plane::instance(args)?;
    if record.api_server.is_empty() {
        return Err(StatusError::Starting(record.process));
    }
    let client = kube_client::client(
        kube_client::config(&Target {
            kubeconfig: Some(kubeconfig),
            context: Some(CONTEXT.to_owned()),
            master: None,
        })
        .await?,
        Component::CommandLine,
    )?;
    let response = tokio::time::timeout(RESPONSE_TIMEOUT, members(client)).await;
    let members = match response {
        Ok(Ok(members)) => members,
        failed => {
            return Err(StatusError::Unresponsive {
                process: record.process,
                reason: match failed {
                    Ok(Err(error)) => error.to_string(),
                    _ => format!("no response in {} s", RESPONSE_TIMEOUT.as_secs()),
                },
                url: record.api_server,
            });
        }
    };
    let status = Status { record, members };
    Ok(match output {
        Output::Text => text(&status),
        Output::Json | Output::Yaml => output.serialize(&status)?,
    })
}

async fn members(client: Client) -> Result<Vec<Member>, kube::Error> {
    let clusters: Api<Cluster> = Api::all(client);
    let listed = clusters.list(&ListParams::default()).await?;
    let mut members: Vec<Member> = listed.items.iter().map(member).collect();
    members.sort_by(|a, b| sort_key(&a.name).cmp(&sort_key(&b.name)));
    Ok(members)
}

/// Returns the sort key of a name, which puts member2 before member10.
fn sort_key(name: &str) -> (&str, Option<u64>, &str) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name
        .strip_prefix(stem)
        .and_then(|digits| digits.parse().ok());
    (stem, number, name)
}

fn member(cluster: &Cluster) -> Member {
    let status = cluster.status.clone().unwrap_or_default();
    let ready = condition::find(&status.conditions, CONDITION_READY);
    let nodes = status.node_summary.unwrap_or_default();
    let number = |number: Option<i32>| number.map_or_else(|| "?".to_owned(), |n| n.to_string());
    Member {
        name: cluster.name_any(),
        api_server: cluster
            .spec
            .api_endpoint
            .clone()
            .unwrap_or_else(|| "none".to_owned()),
        ready: ready.map_or_else(|| "Unknown".to_owned(), |c| c.status.clone()),
        nodes: format!("{}/{}", number(nodes.ready_num), number(nodes.total_num)),
    }
}

fn text(status: &Status) -> String {
    let record = &status.record;
    let mut text = format!("berth {} is up\n\n", record.version);
    let lines = [
        ("API server", record.api_server.clone()),
        ("since", record.since.clone()),
        ("process", record.process.to_string()),
        ("kubeconfig", record.kubeconfig.display().to_string()),
        ("store", record.store.clone()),
        ("components", record.components.join(", ")),
    ];
    text.extend(lines.map(|(name, value)| format!("  {name:<12} {value}\n")));
    text.push('\n');
    if status.members.is_empty() {
        text.push_str("no members\n");
        return text;
    }
    let rows: Vec<Vec<String>> = status
        .members
        .iter()
        .map(|member| {
            vec![
                member.name.clone(),
                member.api_server.clone(),
                member.ready.clone(),
                member.nodes.clone(),
            ]
        })
        .collect();
    let header = ["MEMBER", "API SERVER", "READY", "NODES"];
    text + &columns::align(&header, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_sorted_by_their_numbers() {
        let mut names = [
            "member10", "member2", "edge", "member", "member1", "member02",
        ];
        names.sort_by_key(|name| sort_key(name));
        let expected = [
            "edge", "member", "member1", "member02", "member2", "member10",
        ];
        assert_eq!(names, expected);
    }
}
