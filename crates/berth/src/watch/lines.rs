//! What happened, in a line.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::board::{News, Place, Row, Wanted};

/// Between the two halves of a move.
const ARROW: &str = " -> ";

/// A line for a piece of news: when, about what, what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    head: String,
    /// Of a move: from where.
    from: Option<String>,
    text: String,
}

impl Line {
    /// Returns the line in at most `columns` columns. Of a move, the destination is kept rather than the origin.
    pub(super) fn fit(&self, columns: usize) -> String {
        let Some(from) = &self.from else {
            return cut(&self.to_string(), columns);
        };
        let others = self.head.chars().count() + ARROW.len() + self.text.chars().count();
        let room = columns.saturating_sub(others).max(1);
        let line = format!("{}{}{ARROW}{}", self.head, cut(from, room), self.text);
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

/// Shortens a text to a number of columns; an ellipsis stands for what is left out.
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

/// A text of others on one line, without what a terminal would take for a command.
pub(super) fn plain(text: &str) -> String {
    let blank = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(blank).collect()
}

/// The line for a piece of news.
pub(super) fn line(time: &Timestamp, news: &News) -> Line {
    let time = time
        .to_zoned(TimeZone::system())
        .strftime("%H:%M:%S")
        .to_string();
    let mut origin = None;
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
                (false, false) => {
                    origin = Some(from);
                    (key.to_string(), "moved", to)
                }
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
    Line {
        head: plain(&format!("{time}  {about}  {verb:<10}  ")),
        from: origin,
        text: plain(&rest),
    }
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
        text = match wanted {
            Wanted::InAll(replicas) => format!("{text}, {replicas} replicas"),
            Wanted::InEach(replicas) => format!("{text}, {replicas} replicas in each cluster"),
        };
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

#[cfg(test)]
mod tests {
    use berth_scheduler::binding::BindingKey;

    use super::*;

    #[test]
    fn the_destination_of_a_move_is_kept() {
        let on = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), 1)).collect();
        let news = News::Moved {
            key: BindingKey {
                namespace: Some("shop".into()),
                name: "web".into(),
            },
            from: on(&["member1", "member2", "member3"]),
            to: on(&["member4", "member5"]),
            with_replicas: true,
        };
        let line = line(&Timestamp::UNIX_EPOCH, &news);
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
    fn what_others_say_is_one_line_without_commands_for_the_terminal() {
        let key = BindingKey {
            namespace: None,
            name: "web".into(),
        };
        let news = News::Failed(key, "first\nsecond \u{1b}[2J".to_owned());
        let line = line(&Timestamp::UNIX_EPOCH, &news).to_string();
        assert!(line.ends_with("first second  [2J"), "{line:?}");
    }
}
