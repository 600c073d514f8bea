//! Formatting of each [`Change`] as one line of text, for the output without a terminal and for the list of events.

use std::collections::BTreeMap;
use std::fmt;

use berth_diagnosis::CopyRow;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::fleet_state::{BindingRow, Change, DesiredReplicas};
use crate::columns::plain;

/// Separator between the previous and the new clusters of a move.
const ARROW: &str = " -> ";

/// A line for one change: time, object, verb and details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    head: String,
    /// Previous clusters, for a move.
    from: Option<String>,
    text: String,
}

impl Line {
    /// Returns the line, shortened to `columns` columns. In a move, the previous clusters are shortened before the new
    /// clusters are.
    pub(super) fn fit(&self, columns: usize) -> String {
        let Some(from) = &self.from else {
            return cut(&self.to_string(), columns);
        };
        let fixed = self.head.chars().count() + ARROW.len() + self.text.chars().count();
        let width = columns.saturating_sub(fixed).max(1);
        let line = format!("{}{}{ARROW}{}", self.head, cut(from, width), self.text);
        cut(&line, columns)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = self.from.iter().flat_map(|from| [from.as_str(), ARROW]);
        let parts = [self.head.as_str()].into_iter().chain(from);
        let line: String = parts.chain([self.text.as_str()]).collect();
        f.write_str(line.trim_end())
    }
}

/// Shortens a text to a number of columns, with an ellipsis at the end.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let mut kept: String = text.chars().take(columns.saturating_sub(1)).collect();
    if columns > 0 {
        kept.push('…');
    }
    kept
}

/// Returns the line for a change.
pub(super) fn line(time: &Timestamp, change: &Change) -> Line {
    let time = time
        .to_zoned(TimeZone::system())
        .strftime("%H:%M:%S")
        .to_string();
    let mut origin = None;
    let (about, verb, rest) = match change {
        Change::BindingAdded(key, row) => (key.to_string(), "exists", describe(row)),
        Change::Moved {
            key,
            from,
            to,
            with_replicas,
        } => {
            let (from, to) = (
                assigned_replicas(from, *with_replicas),
                assigned_replicas(to, *with_replicas),
            );
            match (from.is_empty(), to.is_empty()) {
                (true, _) => (key.to_string(), "placed", to),
                (false, true) => (key.to_string(), "withdrawn", format!("from {from}")),
                (false, false) => {
                    origin = Some(from);
                    (key.to_string(), "moved", to)
                }
            }
        }
        Change::EvictionStarted(key, cluster) => (
            key.to_string(),
            "leaving",
            format!("{cluster}, when the new copies are healthy"),
        ),
        Change::EvictionEnded(key, cluster) => (key.to_string(), "left", cluster.clone()),
        Change::MigrationStarted(key, message) => (key.to_string(), "migrating", message.clone()),
        Change::MigrationEnded(key) => (
            key.to_string(),
            "migrated",
            "no old copy waits any more".to_owned(),
        ),
        Change::StatusReported(key, copy) => (key.to_string(), "reported", report(copy)),
        Change::HealthChanged(key, row) => {
            (key.to_string(), row.health.as_str(), row.verdict.clone())
        }
        Change::BindingDeleted(key) => (key.to_string(), "gone", String::new()),
        Change::ReadinessChanged(name, ready) => {
            let state = if *ready { "ready" } else { "not ready" };
            (name.clone(), "cluster", state.to_owned())
        }
        Change::ClusterDeleted(name) => (name.clone(), "cluster", "gone".to_owned()),
    };
    Line {
        head: plain(&format!("{time}  {about}  {verb:<10}  ")),
        from: origin,
        text: plain(&rest),
    }
}

fn describe(row: &BindingRow) -> String {
    let mut text = row.workload.kind.clone();
    if !row.policy.is_empty() {
        text = format!("{text} of policy {}", row.policy);
    }
    if !row.required_by.is_empty() {
        text = format!("{text} follows {}", row.required_by.join(", "));
    }
    if let Some(desired) = row.desired {
        text = match desired {
            DesiredReplicas::InAll(replicas) => format!("{text}, {replicas} replicas"),
            DesiredReplicas::InEach(replicas) => {
                format!("{text}, {replicas} replicas in each cluster")
            }
        };
    }
    let targets = clusters(row);
    if targets.is_empty() {
        format!("{text}: no clusters")
    } else {
        format!("{text}: {targets}")
    }
}

/// Describes the copies in all clusters. `member1 1/2` means that one of two replicas is ready.
pub(super) fn clusters(row: &BindingRow) -> String {
    let copies = row.copies.iter().map(|copy| {
        let name = &copy.cluster;
        if row.leaves(copy) {
            format!("{name} leaving")
        } else if copy.wanted.is_some() {
            format!("{name} {}", copy.replicas())
        } else {
            format!("{name} {}", copy.state.as_str())
        }
    });
    let evicted = row.without_report().map(|name| format!("{name} leaving"));
    let all: Vec<String> = copies.chain(evicted).collect();
    all.join(", ")
}

fn report(copy: &CopyRow) -> String {
    let (name, state) = (&copy.cluster, copy.state.as_str());
    match copy.wanted {
        Some(_) => format!("{name} {}, {state}", copy.replicas()),
        None => format!("{name} {state}"),
    }
}

fn assigned_replicas(targets: &BTreeMap<String, i32>, with_replicas: bool) -> String {
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

#[cfg(test)]
mod tests {
    use berth_api::BindingKey;

    use super::*;

    #[test]
    fn previous_clusters_of_a_move_are_shortened_before_the_new_clusters() {
        let on = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), 1)).collect();
        let change = Change::Moved {
            key: BindingKey::new("shop", "web"),
            from: on(&["member1", "member2", "member3"]),
            to: on(&["member4", "member5"]),
            with_replicas: true,
        };
        let line = line(&Timestamp::UNIX_EPOCH, &change);
        for (columns, expected) in [
            (
                90,
                "  shop/web  moved       member1:1, member2:1, member3:1 -> member4:1, member5:1",
            ),
            (
                70,
                "  shop/web  moved       member1:1, me… -> member4:1, member5:1",
            ),
            (57, "  shop/web  moved       … -> member4:1, member5:1"),
            (46, "  shop/web  moved       … -> member4:…"),
            (0, ""),
        ] {
            let fitted = line.fit(columns);
            assert!(fitted.chars().count() <= columns, "{columns}: {fitted}");
            let without_time: String = fitted.chars().skip(8).collect();
            assert_eq!(without_time, expected, "{columns}");
        }
    }

    #[test]
    fn text_from_objects_is_one_line_without_control_characters() {
        let key = BindingKey::new("", "web");
        let change = Change::MigrationStarted(key, "first\nsecond \u{1b}[2J".to_owned());
        let line = line(&Timestamp::UNIX_EPOCH, &change).to_string();
        assert!(line.ends_with("first second  [2J"), "{line:?}");
    }
}
