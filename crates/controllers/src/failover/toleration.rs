//! Whether a binding may stay on a cluster that has `NoExecute` taints, and for how long.

use berth_api::placement::Placement;
use berth_api::toleration::Toleration;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Taint;

/// The effect that evicts.
pub const NO_EXECUTE: &str = "NoExecute";

/// A taint that evicts.
#[derive(Clone, Debug, PartialEq)]
pub struct EvictingTaint {
    key: String,
    value: String,
    since: Timestamp,
}

impl EvictingTaint {
    /// The taint, if it evicts. One that does not say since when counts from when it was `seen`.
    pub fn new(taint: &Taint, seen: Timestamp) -> Option<Self> {
        (taint.effect == NO_EXECUTE).then(|| Self {
            key: taint.key.clone(),
            value: taint.value.clone().unwrap_or_default(),
            since: taint.time_added.as_ref().map_or(seen, |time| time.0),
        })
    }

    /// Whether this is about the same as another, whenever they were added.
    pub fn is_like(&self, other: &Self) -> bool {
        self.key == other.key && self.value == other.value
    }

    /// Since when it is there.
    pub fn since(&self) -> Timestamp {
        self.since
    }

    /// The same taint, known for longer.
    #[must_use]
    pub fn known_since(mut self, since: Timestamp) -> Self {
        self.since = since;
        self
    }
}

/// How long a binding may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// As long as it likes.
    Forever,
    /// Until then.
    Until(Timestamp),
    /// Not at all.
    No,
}

/// How long a binding with this placement may stay on a cluster with these taints. For each taint the first toleration
/// that fits counts, as in Karmada, and then for all taints that it fits; of several limits the earliest one counts.
/// What is tolerated is not known without a placement: then the binding stays.
pub fn stay(placement: Option<&Placement>, taints: &[EvictingTaint]) -> Stay {
    let Some(placement) = placement else {
        return Stay::Forever;
    };
    let mut used = Vec::new();
    for taint in taints {
        let mut tolerations = placement.cluster_tolerations.iter();
        match tolerations.find(|toleration| tolerates(toleration, taint)) {
            Some(toleration) => used.push(toleration),
            None => return Stay::No,
        }
    }
    let ends = used.into_iter().flat_map(|toleration| {
        let seconds = toleration.toleration_seconds;
        let fitting = taints.iter().filter(|taint| tolerates(toleration, taint));
        fitting.filter_map(move |taint| {
            let end = taint
                .since
                .saturating_add(SignedDuration::from_secs(seconds?));
            Some(end.unwrap_or(Timestamp::MAX))
        })
    });
    ends.min().map_or(Stay::Forever, Stay::Until)
}

fn tolerates(toleration: &Toleration, taint: &EvictingTaint) -> bool {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if given(&toleration.effect).is_some_and(|effect| effect != NO_EXECUTE) {
        return false;
    }
    if given(&toleration.key).is_some_and(|key| key != taint.key) {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => toleration.value.as_deref().unwrap_or_default() == taint.value,
        "Exists" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn taints(list: &[(&str, &str, &str, Option<i64>)]) -> Vec<EvictingTaint> {
        let taints = list.iter().map(|(key, value, effect, added)| Taint {
            key: (*key).to_owned(),
            value: Some((*value).to_owned()),
            effect: (*effect).to_owned(),
            time_added: added.map(|second| Time(at(second))),
        });
        taints
            .filter_map(|taint| EvictingTaint::new(&taint, at(1000)))
            .collect()
    }

    fn placement(tolerations: serde_json::Value) -> Placement {
        serde_json::from_value(json!({ "clusterTolerations": tolerations })).unwrap()
    }

    #[test]
    fn a_binding_stays_as_long_as_every_taint_is_tolerated() {
        let down = [("down", "", NO_EXECUTE, Some(100))];
        for (about, taint_list, tolerations, expected) in [
            ("no taint", &[][..], json!([]), Stay::Forever),
            (
                "another effect",
                &[("down", "", "NoSchedule", None)],
                json!([]),
                Stay::Forever,
            ),
            ("no toleration", &down, json!([]), Stay::No),
            (
                "any taint",
                &down,
                json!([{"operator": "Exists"}]),
                Stay::Forever,
            ),
            (
                "this key",
                &down,
                json!([{"key": "down", "operator": "Exists"}]),
                Stay::Forever,
            ),
            (
                "another key",
                &down,
                json!([{"key": "up", "operator": "Exists"}]),
                Stay::No,
            ),
            (
                "the effect that keeps out does not keep in",
                &down,
                json!([{"key": "down", "operator": "Exists", "effect": "NoSchedule"}]),
                Stay::No,
            ),
            (
                "equal values",
                &[("zone", "a", NO_EXECUTE, Some(1))],
                json!([{"key": "zone", "value": "a", "effect": NO_EXECUTE}]),
                Stay::Forever,
            ),
            (
                "other values",
                &[("zone", "a", NO_EXECUTE, Some(1))],
                json!([{"key": "zone", "value": "b"}]),
                Stay::No,
            ),
            (
                "for a while",
                &down,
                json!([{"key": "down", "operator": "Exists", "tolerationSeconds": 30}]),
                Stay::Until(at(130)),
            ),
            (
                "counted from when it was seen",
                &[("down", "", NO_EXECUTE, None)],
                json!([{"key": "down", "operator": "Exists", "tolerationSeconds": 30}]),
                Stay::Until(at(1030)),
            ),
            (
                "the earliest limit counts",
                &[
                    ("down", "", NO_EXECUTE, Some(100)),
                    ("slow", "", NO_EXECUTE, Some(90)),
                ],
                json!([{"operator": "Exists", "tolerationSeconds": 30}]),
                Stay::Until(at(120)),
            ),
            (
                "one is tolerated, the other is not",
                &[
                    ("down", "", NO_EXECUTE, Some(100)),
                    ("slow", "", NO_EXECUTE, Some(90)),
                ],
                json!([{"key": "slow", "operator": "Exists"}]),
                Stay::No,
            ),
        ] {
            let found = stay(Some(&placement(tolerations)), &taints(taint_list));
            assert_eq!(found, expected, "{about}");
        }
    }

    #[test]
    fn the_first_toleration_that_fits_a_taint_counts() {
        let down = [("down", "", NO_EXECUTE, Some(100))];
        for (about, taint_list, tolerations, expected) in [
            (
                "the first toleration that fits counts: what is for ever is not cut short by the next",
                &down[..],
                json!([{"operator": "Exists"},
                    {"key": "down", "operator": "Exists", "tolerationSeconds": 30}]),
                Stay::Forever,
            ),
            (
                "nor does the next one lengthen it",
                &down[..],
                json!([{"key": "down", "operator": "Exists", "tolerationSeconds": 30},
                    {"operator": "Exists"}]),
                Stay::Until(at(130)),
            ),
            (
                "a toleration that counts for one taint counts for all that it fits",
                &[
                    ("down", "", NO_EXECUTE, Some(100)),
                    ("slow", "", NO_EXECUTE, Some(90)),
                ],
                json!([{"key": "slow", "operator": "Exists"},
                    {"operator": "Exists", "tolerationSeconds": 30}]),
                Stay::Until(at(120)),
            ),
        ] {
            let found = stay(Some(&placement(tolerations)), &taints(taint_list));
            assert_eq!(found, expected, "{about}");
        }
    }

    #[test]
    fn without_a_placement_nothing_moves() {
        let taints = taints(&[("down", "", NO_EXECUTE, Some(100))]);
        assert_eq!(stay(None, &taints), Stay::Forever);
        assert_eq!(stay(Some(&placement(json!([]))), &taints), Stay::No);
        assert_eq!(stay(Some(&placement(json!([]))), &[]), Stay::Forever);
    }
}
