//! A part of the load scenario `server`: many clients watch the same objects while the objects change at a steady rate.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::BodyExt as _;
use kube::Client;
use serde_json::{Value, json};

use super::LoadError;
use super::requests::{self, PlannedRequest};

/// A watch parses one of this many lines, and only counts the other lines. A line contains one watch event.
const PARSE_ONE_IN: usize = 100;
/// Time limit for the last line of a watch after the last write.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Results of all watches.
pub(super) struct WatchResults {
    /// Number of lines received by all watches.
    pub(super) lines: usize,
    /// Times from sending a write until a watch has parsed the line of this write, in ascending order.
    pub(super) latencies: Vec<Duration>,
}

/// Sends `updates` writes at a steady rate through `writers`, while each of `clients` watches the changed objects.
/// `path` is the path of the collection, and `names` are the names of the objects in the collection.
pub(super) async fn fan_out(
    clients: &[Client],
    writers: &[Client],
    path: &str,
    names: &[String],
    rate: u32,
    updates: usize,
) -> Result<WatchResults, LoadError> {
    let epoch = Instant::now();
    let Some(first) = clients.first() else {
        return Err(LoadError::Unexpected("no client watches".to_owned()));
    };
    let list = requests::get(first, &format!("{path}?limit=1")).await?;
    let list: Value =
        serde_json::from_slice(&list).map_err(|error| LoadError::Unexpected(error.to_string()))?;
    let from = list["metadata"]["resourceVersion"].as_str().unwrap_or("0");
    let mut watches = Vec::with_capacity(clients.len());
    for (offset, client) in clients.iter().enumerate() {
        let wanted = PlannedRequest {
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
        let wanted = PlannedRequest::merge(format!("{path}/{name}"), &change);
        let writers = writers.clone();
        under_way.spawn(async move {
            let response = requests::send(&writers[index % writers.len()], &wanted).await?;
            requests::read_body(response).await.map(drop)
        });
    }
    while let Some(written) = under_way.join_next().await {
        written.map_err(|error| LoadError::Unexpected(error.to_string()))??;
    }
    let mut seen = WatchResults {
        lines: 0,
        latencies: Vec::new(),
    };
    for watch in watches {
        let late = |_| LoadError::Timeout {
            what: "the last line of a watch".to_owned(),
            limit: TIMEOUT,
        };
        let ended = tokio::time::timeout(TIMEOUT, watch).await.map_err(late)?;
        let (lines, latencies) =
            ended.map_err(|error| LoadError::Unexpected(error.to_string()))??;
        seen.lines += lines;
        seen.latencies.extend(latencies);
    }
    seen.latencies.sort_unstable();
    Ok(seen)
}

/// Reads one line for each update. Returns the number of lines, and the latencies of the parsed lines.
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
            let is_parsed = (lines + offset).is_multiple_of(PARSE_ONE_IN);
            if is_parsed {
                line.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                lines += 1;
                if is_parsed {
                    latencies.push(latency(&line, epoch)?);
                    line.clear();
                }
            }
        }
    }
    Ok((lines, latencies))
}

/// Parses a line. Returns the time since a client sent the write that the line reports.
fn latency(line: &[u8], epoch: Instant) -> Result<Duration, LoadError> {
    let event: Value =
        serde_json::from_slice(line).map_err(|error| LoadError::Unexpected(error.to_string()))?;
    let sent = event["object"]["metadata"]["annotations"]["sent"].as_str();
    let sent: u64 = sent.and_then(|sent| sent.parse().ok()).ok_or_else(|| {
        LoadError::Unexpected(format!("the watch event has no annotation `sent`: {event}"))
    })?;
    Ok(epoch.elapsed().saturating_sub(Duration::from_nanos(sent)))
}
