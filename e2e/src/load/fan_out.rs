//! Many watches of the same objects while these change.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::BodyExt as _;
use kube::Client;
use serde_json::{Value, json};

use super::LoadError;
use super::requests::{self, Wanted};

/// How many lines a watch counts for each that it reads.
const READ_ONE_IN: usize = 100;
/// How long the last line may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the watches saw.
pub(super) struct Seen {
    /// The lines of all watches together.
    pub(super) lines: usize,
    /// From before a write was sent until a line about it was read, sorted.
    pub(super) latencies: Vec<Duration>,
}

/// Changes objects at a steady rate while clients watch them. `path` is the collection, `names` what is in it.
pub(super) async fn fan_out(
    clients: &[Client],
    writers: &[Client],
    path: &str,
    names: &[String],
    rate: u32,
    updates: usize,
) -> Result<Seen, LoadError> {
    let epoch = Instant::now();
    let Some(first) = clients.first() else {
        return Err(LoadError::Wrong("no client watches".to_owned()));
    };
    let list = requests::get(first, &format!("{path}?limit=1")).await?;
    let list: Value =
        serde_json::from_slice(&list).map_err(|error| LoadError::Wrong(error.to_string()))?;
    let from = list["metadata"]["resourceVersion"].as_str().unwrap_or("0");
    let mut watches = Vec::with_capacity(clients.len());
    for (offset, client) in clients.iter().enumerate() {
        let wanted = Wanted {
            method: http::Method::GET,
            path: format!("{path}?watch=true&resourceVersion={from}"),
            body: Vec::new(),
        };
        let body = requests::send(client, &wanted).await?.into_body();
        watches.push(tokio::spawn(watch(body, updates, offset, epoch)));
    }

    let mut clock = tokio::time::interval(Duration::from_secs(1) / rate);
    let mut under_way = tokio::task::JoinSet::new();
    let writers: Arc<[Client]> = writers.into();
    for (index, name) in names.iter().cycle().take(updates).enumerate() {
        clock.tick().await;
        let sent = u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let change = json!({ "metadata": { "annotations": { "sent": sent.to_string() } } });
        let wanted = Wanted::merge(format!("{path}/{name}"), &change);
        let writers = writers.clone();
        under_way.spawn(async move {
            let answer = requests::send(&writers[index % writers.len()], &wanted).await?;
            requests::whole(answer).await.map(drop)
        });
    }
    while let Some(written) = under_way.join_next().await {
        written.map_err(|error| LoadError::Wrong(error.to_string()))??;
    }
    let mut seen = Seen {
        lines: 0,
        latencies: Vec::new(),
    };
    for watch in watches {
        let late = |_| LoadError::Late {
            what: "the last line of a watch".to_owned(),
            limit: PATIENCE,
        };
        let ended = tokio::time::timeout(PATIENCE, watch).await.map_err(late)?;
        let (lines, latencies) = ended.map_err(|error| LoadError::Wrong(error.to_string()))??;
        seen.lines += lines;
        seen.latencies.extend(latencies);
    }
    seen.latencies.sort_unstable();
    Ok(seen)
}

/// Counts lines until there are as many as updates; reads some of them.
async fn watch(
    mut body: kube::client::Body,
    updates: usize,
    offset: usize,
    epoch: Instant,
) -> Result<(usize, Vec<Duration>), LoadError> {
    let mut lines = 0;
    let mut latencies = Vec::new();
    let mut line = Vec::new();
    while lines < updates {
        let Some(frame) = body.frame().await else {
            break;
        };
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        for part in data.split_inclusive(|byte| *byte == b'\n') {
            let is_read = (lines + offset).is_multiple_of(READ_ONE_IN);
            if is_read {
                line.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                lines += 1;
                if is_read {
                    latencies.push(age(&line, epoch)?);
                    line.clear();
                }
            }
        }
    }
    Ok((lines, latencies))
}

/// How long ago the write was sent that a line is about.
fn age(line: &[u8], epoch: Instant) -> Result<Duration, LoadError> {
    let event: Value =
        serde_json::from_slice(line).map_err(|error| LoadError::Wrong(error.to_string()))?;
    let sent = event["object"]["metadata"]["annotations"]["sent"].as_str();
    let sent: u64 = sent
        .and_then(|sent| sent.parse().ok())
        .ok_or_else(|| LoadError::Wrong(format!("a line without its time: {event}")))?;
    Ok(epoch.elapsed().saturating_sub(Duration::from_nanos(sent)))
}
