//! What happened, in a line.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::board::{News, Place, Row};

/// A line for a piece of news: when, about what, what.
pub(super) fn line(time: &Timestamp, news: &News) -> String {
    let time = time
        .to_zoned(TimeZone::system())
        .strftime("%H:%M:%S")
        .to_string();
    let (about, verb, rest) = match news {
        News::Binding(key, row) => (key.to_string(), "there", there(row)),
        News::Moved {
            key,
            from,
            to,
            with_replicas,
        } => {
            let (from, to) = (targets(from, *with_replicas), targets(to, *with_replicas));
            match (from.is_empty(), to.is_empty()) {
                (true, _) => (key.to_string(), "placed", to),
                (false, true) => (key.to_string(), "withdrawn", format!("from {from}")),
                (false, false) => (key.to_string(), "moved", format!("{from} -> {to}")),
            }
        }
        News::Leaving(key, cluster) => (
            key.to_string(),
            "leaving",
            format!("{cluster}, when the new copies are healthy"),
        ),
        News::Left(key, cluster) => (key.to_string(), "left", cluster.clone()),
        News::Reported(key, cluster, place) => (
            key.to_string(),
            "reported",
            format!("{cluster} {}", report(place)),
        ),
        News::Failed(key, message) => (key.to_string(), "not placed", message.clone()),
        News::Gone(key) => (key.to_string(), "gone", String::new()),
        News::Cluster(name, ready) => {
            let how = if *ready { "ready" } else { "not ready" };
            (name.clone(), "cluster", how.to_owned())
        }
        News::ClusterGone(name) => (name.clone(), "cluster", "gone".to_owned()),
    };
    format!("{time}  {about}  {verb:<10}  {rest}")
        .trim_end()
        .to_owned()
}

fn there(row: &Row) -> String {
    let mut text = row.kind.clone();
    if !row.policy.is_empty() {
        text = format!("{text} of policy {}", row.policy);
    }
    if !row.follows.is_empty() {
        text = format!("{text} follows {}", row.follows.join(", "));
    }
    if let Some(wanted) = row.wanted {
        text = format!("{text}, {wanted} replicas");
    }
    let places: Vec<String> = row
        .places
        .iter()
        .map(|(name, p)| place(name, p, row))
        .collect();
    if places.is_empty() {
        format!("{text}: nowhere")
    } else {
        format!("{text}: {}", places.join(", "))
    }
}

/// A cluster with what is there: `member1 1/2`, ready and wanted replicas where it has any.
pub(super) fn place(name: &str, place: &Place, row: &Row) -> String {
    let number = |number: Option<i64>| number.map_or_else(|| "?".to_owned(), |n| n.to_string());
    match (place.replicas, row.wanted) {
        (None, _) => format!("{name} leaving"),
        (Some(_), None) => match &place.health {
            Some(health) => format!("{name} {}", health.as_str()),
            None => name.to_owned(),
        },
        (Some(replicas), Some(_)) => format!("{name} {}/{replicas}", number(place.ready)),
    }
}

fn report(place: &Place) -> String {
    let ready = match (place.ready, place.replicas) {
        (Some(ready), Some(replicas)) => Some(format!("{ready}/{replicas} ready")),
        (Some(ready), None) => Some(format!("{ready} ready")),
        (None, _) => None,
    };
    let health = place
        .health
        .as_ref()
        .map(|health| health.as_str().to_owned());
    let parts: Vec<String> = ready.into_iter().chain(health).collect();
    parts.join(", ")
}

fn targets(targets: &BTreeMap<String, i32>, with_replicas: bool) -> String {
    let targets: Vec<String> = targets
        .iter()
        .map(|(name, replicas)| {
            if with_replicas {
                format!("{name}:{replicas}")
            } else {
                name.clone()
            }
        })
        .collect();
    targets.join(", ")
}
