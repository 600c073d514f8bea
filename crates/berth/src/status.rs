//! `berth status`: what is up, where, and how it is.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use berth_api::Cluster;
use berth_api::component::Component;
use berth_scheduler::connect::{self, ConnectError, Target};
use clap::{Args, ValueEnum};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use serde::Serialize;

use crate::answer;
use crate::columns;
use crate::control_plane::{self, Instance, LookupError};
use crate::instance::Record;
use crate::kubeconfig::CONTEXT;

/// How long the API server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Flags of `berth status`.
#[derive(Args, Clone, Debug)]
pub struct StatusArgs {
    /// The kubeconfig of the `berth up` [default: $KUBECONFIG, or ~/.berth/kubeconfig]
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,

    /// How the answer looks
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
}

/// How the answer looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// For programs.
    Yaml,
}

/// Why there is no good news.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// Nothing is up.
    #[error(transparent)]
    NotUp(#[from] LookupError),
    /// It is not ready yet.
    #[error("a `berth up` is starting (process {0})")]
    Starting(i32),
    /// It cannot be addressed.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// It runs, and does not answer.
    #[error("process {process} runs, but {url} does not answer: {reason}")]
    Silent {
        /// The process.
        process: i32,
        /// The API server.
        url: String,
        /// What happened instead.
        reason: String,
    },
    /// The answer cannot be shown.
    #[error("cannot write the answer: {0}")]
    Write(#[from] std::io::Error),
}

/// What is up.
#[derive(Debug, Serialize)]
struct Answer {
    #[serde(flatten)]
    record: Record,
    members: Vec<Member>,
}

/// A member, as the control plane sees it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Member {
    name: String,
    api_server: String,
    ready: String,
    nodes: String,
}

/// Shows what is up.
///
/// # Errors
/// When nothing is, or it does not answer.
pub async fn run(args: StatusArgs) -> Result<(), StatusError> {
    let Instance { kubeconfig, record } = control_plane::instance(args.kubeconfig)?;
    if record.api_server.is_empty() {
        return Err(StatusError::Starting(record.process));
    }
    let client = connect::client(
        connect::config(&Target {
            kubeconfig: Some(kubeconfig),
            context: Some(CONTEXT.to_owned()),
            master: None,
        })
        .await?,
        Component::CommandLine,
    )?;
    let asked = tokio::time::timeout(PATIENCE, members(client)).await;
    let members = match asked {
        Ok(Ok(members)) => members,
        silent => {
            return Err(StatusError::Silent {
                process: record.process,
                reason: match silent {
                    Ok(Err(error)) => error.to_string(),
                    _ => format!("no answer in {} s", PATIENCE.as_secs()),
                },
                url: record.api_server,
            });
        }
    };
    let answer = Answer { record, members };
    let text = match args.output {
        Output::Text => text(&answer),
        Output::Json => {
            let text = serde_json::to_string_pretty(&answer).map_err(io::Error::other)?;
            text + "\n"
        }
        Output::Yaml => serde_saphyr::to_string(&answer).map_err(io::Error::other)?,
    };
    answer::print(&text)?;
    Ok(())
}

async fn members(client: Client) -> Result<Vec<Member>, kube::Error> {
    let clusters: Api<Cluster> = Api::all(client);
    let listed = clusters.list(&ListParams::default()).await?;
    let mut members: Vec<Member> = listed.items.iter().map(member).collect();
    members.sort_by(|a, b| place(&a.name).cmp(&place(&b.name)));
    Ok(members)
}

/// Where a name stands in the list: member2 before member10.
fn place(name: &str) -> (&str, Option<u64>, &str) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name
        .strip_prefix(stem)
        .and_then(|digits| digits.parse().ok());
    (stem, number, name)
}

fn member(cluster: &Cluster) -> Member {
    let status = cluster.status.clone().unwrap_or_default();
    let ready = status.conditions.iter().find(|c| c.type_ == "Ready");
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

fn text(answer: &Answer) -> String {
    let record = &answer.record;
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
    if answer.members.is_empty() {
        text.push_str("no members\n");
        return text;
    }
    let rows: Vec<Vec<String>> = answer
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
    fn members_stand_in_the_order_of_their_numbers() {
        let mut names = [
            "member10", "member2", "edge", "member", "member1", "member02",
        ];
        names.sort_by_key(|name| place(name));
        let expected = [
            "edge", "member", "member1", "member02", "member2", "member10",
        ];
        assert_eq!(names, expected);
    }
}
