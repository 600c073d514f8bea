//! [`ClusterScores`]: the scores in all ClusterScores about one cluster.
//!
//! The time is an argument of every function: an expired score counts as absent, and no function reads a clock.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use jiff::Timestamp;

use super::ClusterScoreSpec;

/// The scores of one cluster.
///
/// If several objects contain a score of the same name, the valid score of the object whose name is the first in
/// alphabetical order counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterScores {
    /// The scores, sorted by name and then by object.
    entries: Vec<ScoreEntry>,
}

/// A score in one object.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreEntry {
    /// The name of the score.
    pub name: String,
    /// The name of the ClusterScore that contains the score.
    pub object: String,
    /// The value.
    pub value: f64,
    measured_at: Option<Timestamp>,
    valid_until: Option<Timestamp>,
}

/// The state of a score at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScoreState<'a> {
    /// The score that counts.
    Valid(&'a ScoreEntry),
    /// The score of this name that expired last, and the time of its expiry.
    Expired(&'a ScoreEntry, Timestamp),
    /// No object contains a score of this name.
    Missing,
}

impl ScoreEntry {
    /// Returns the age in whole seconds. It is 0 if the time of the measurement is unknown or in the future.
    pub fn age_seconds(&self, now: Timestamp) -> i64 {
        self.measured_at.map_or(0, |at| {
            now.as_second().saturating_sub(at.as_second()).max(0)
        })
    }

    fn is_valid(&self, now: Timestamp) -> bool {
        self.valid_until.is_none_or(|until| now < until)
    }
}

impl ClusterScores {
    /// Combines the objects about a cluster, given by their names.
    pub fn new<'a>(objects: impl IntoIterator<Item = (&'a str, &'a ClusterScoreSpec)>) -> Self {
        let mut entries = Vec::new();
        for (object, spec) in objects {
            entries.extend(spec.scores.iter().map(|(name, value)| ScoreEntry {
                name: name.clone(),
                object: object.to_owned(),
                value: *value,
                measured_at: spec.timestamp.as_ref().map(|time| time.0),
                valid_until: spec.valid_until.as_ref().map(|time| time.0),
            }));
        }
        entries.sort_by(|a, b| (&a.name, &a.object).cmp(&(&b.name, &b.object)));
        Self { entries }
    }

    /// Reports whether there is no score.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the names of all scores, including those of expired scores.
    pub fn names(&self) -> BTreeSet<&str> {
        self.entries.iter().map(|entry| &*entry.name).collect()
    }

    /// Returns the scores that count at a time, sorted by name.
    pub fn valid_at(&self, now: Timestamp) -> impl Iterator<Item = &ScoreEntry> {
        let mut valid: BTreeMap<&str, &ScoreEntry> = BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| entry.is_valid(now)) {
            valid.entry(&entry.name).or_insert(entry);
        }
        valid.into_values()
    }

    /// Returns the state of a score at a time.
    pub fn state(&self, name: &str, now: Timestamp) -> ScoreState<'_> {
        let named = || self.entries.iter().filter(|entry| entry.name == name);
        if let Some(valid) = named().find(|entry| entry.is_valid(now)) {
            return ScoreState::Valid(valid);
        }
        let expired = named().filter_map(|entry| Some((entry, entry.valid_until?)));
        expired
            .max_by_key(|(_, until)| *until)
            .map_or(ScoreState::Missing, |(entry, until)| {
                ScoreState::Expired(entry, until)
            })
    }

    /// Returns the period around a time in which no score expires.
    pub fn unchanged_period(&self, now: Timestamp) -> Range<Timestamp> {
        let ends = || self.entries.iter().filter_map(|entry| entry.valid_until);
        let start = ends().filter(|until| *until <= now).max();
        let end = ends().filter(|until| *until > now).min();
        start.unwrap_or(Timestamp::MIN)..end.unwrap_or(Timestamp::MAX)
    }

    /// Returns the scores that several objects contain: the name of each such score, and the names of the objects in
    /// the order in which they count.
    pub fn conflicts(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut objects: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for entry in &self.entries {
            objects.entry(&entry.name).or_default().push(&entry.object);
        }
        objects.retain(|_, objects| objects.len() > 1);
        objects
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn scores(objects: &[(&str, Value, Option<i64>)]) -> ClusterScores {
        let specs: Vec<(&str, ClusterScoreSpec)> = objects
            .iter()
            .map(|(name, scores, until)| {
                let spec = json!({ "clusterName": "m1", "scores": scores, "timestamp": at(100).to_string(),
                    "validUntil": until.map(|until| at(until).to_string()) });
                (*name, serde_json::from_value(spec).unwrap())
            })
            .collect();
        ClusterScores::new(specs.iter().map(|(name, spec)| (*name, spec)))
    }

    fn valid(scores: &ClusterScores, second: i64) -> Vec<String> {
        scores
            .valid_at(at(second))
            .map(|entry| format!("{}={} of {}", entry.name, entry.value, entry.object))
            .collect()
    }

    #[test]
    fn the_valid_score_of_the_first_object_counts() {
        let scores = scores(&[
            ("b", json!({ "carbon": 2, "cost": 0.5 }), None),
            ("a", json!({ "carbon": 1 }), Some(200)),
        ]);
        for (second, expected) in [
            (150, ["carbon=1 of a", "cost=0.5 of b"]),
            (199, ["carbon=1 of a", "cost=0.5 of b"]),
            (200, ["carbon=2 of b", "cost=0.5 of b"]),
        ] {
            assert_eq!(valid(&scores, second), expected, "{second}");
        }
        let conflicts = BTreeMap::from([("carbon", vec!["a", "b"])]);
        assert_eq!(scores.conflicts(), conflicts);
        assert_eq!(scores.names(), BTreeSet::from(["carbon", "cost"]));
    }

    #[test]
    fn a_score_is_valid_until_its_expiry_and_then_counts_as_absent() {
        let scores = scores(&[
            ("a", json!({ "carbon": 1 }), Some(200)),
            ("b", json!({ "carbon": 2 }), Some(300)),
        ]);
        let state = |name, second| match scores.state(name, at(second)) {
            ScoreState::Valid(entry) => format!("{} of {}", entry.value, entry.object),
            ScoreState::Expired(entry, until) => {
                format!("{} expired at {}", entry.object, until.as_second())
            }
            ScoreState::Missing => "missing".to_owned(),
        };
        assert_eq!(state("carbon", 199), "1 of a");
        assert_eq!(state("carbon", 200), "2 of b");
        assert_eq!(state("carbon", 300), "b expired at 300");
        assert_eq!(state("cost", 199), "missing");
        assert!(scores.valid_at(at(300)).next().is_none());
        let periods = [
            (150, Timestamp::MIN..at(200)),
            (200, at(200)..at(300)),
            (400, at(300)..Timestamp::MAX),
        ];
        for (second, period) in periods {
            assert_eq!(scores.unchanged_period(at(second)), period, "{second}");
        }
    }

    #[test]
    fn the_age_is_never_negative() {
        let scores = scores(&[("a", json!({ "carbon": 1 }), None)]);
        let entry = scores.valid_at(at(0)).next().unwrap();
        let ages = [90, 100, 107].map(|second| entry.age_seconds(at(second)));
        assert_eq!(ages, [0, 0, 7]);
    }
}
