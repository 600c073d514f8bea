//! Toleration of `NoExecute` taints: for how long a binding may stay on a tainted cluster.

use berth_api::placement::Placement;
use berth_api::toleration::Toleration;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Taint;

/// The effect of taints that evict bindings.
pub(super) const NO_EXECUTE: &str = "NoExecute";

/// The effect of taints that keep new bindings away.
const NO_SCHEDULE: &str = "NoSchedule";

/// A taint with the effect `NoExecute`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EvictingTaint {
    key: String,
    value: String,
    since: Timestamp,
}

impl EvictingTaint {
    /// Returns the taint if its effect is `NoExecute`. A missing `timeAdded` defaults to `observed`.
    pub(super) fn new(taint: &Taint, observed: Timestamp) -> Option<Self> {
        (taint.effect == NO_EXECUTE).then(|| Self {
            key: taint.key.clone(),
            value: taint.value.clone().unwrap_or_default(),
            since: taint.time_added.as_ref().map_or(observed, |time| time.0),
        })
    }

    /// Reports whether two taints are equal except for their times.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.key == other.key && self.value == other.value
    }

    /// Returns the time at which the taint was added.
    pub(super) fn since(&self) -> Timestamp {
        self.since
    }

    /// Returns the taint with `since` as the time at which it was added.
    #[must_use]
    pub(super) fn with_since(mut self, since: Timestamp) -> Self {
        self.since = since;
        self
    }
}

/// The time for which a binding tolerates the taints of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tolerated {
    /// All taints are tolerated without a time limit.
    Forever,
    /// All taints are tolerated until this time.
    Until(Timestamp),
    /// At least one taint is not tolerated.
    No,
}

/// Returns the time for which a binding with this placement tolerates these taints.
///
/// As in Karmada, the first toleration that matches a taint is used. The time limit of a used toleration applies to all
/// taints that the toleration matches, and the earliest limit counts. Without a placement, the tolerations are unknown,
/// and the binding stays.
pub(super) fn tolerated(placement: Option<&Placement>, taints: &[EvictingTaint]) -> Tolerated {
    let Some(placement) = placement else {
        return Tolerated::Forever;
    };
    let mut used = Vec::new();
    for taint in taints {
        let mut tolerations = placement.cluster_tolerations.iter();
        match tolerations.find(|toleration| tolerates(toleration, taint)) {
            Some(toleration) => used.push(toleration),
            None => return Tolerated::No,
        }
    }
    let ends = used.into_iter().flat_map(|toleration| {
        let seconds = toleration.toleration_seconds;
        let matching = taints.iter().filter(|taint| tolerates(toleration, taint));
        matching.filter_map(move |taint| {
            let end = taint
                .since
                .saturating_add(SignedDuration::from_secs(seconds?));
            Some(end.unwrap_or(Timestamp::MAX))
        })
    });
    ends.min().map_or(Tolerated::Forever, Tolerated::Until)
}

/// Returns the number of seconds after which a binding with this placement is evicted from a cluster that gets these
/// taints now, or `None` if the binding stays.
pub fn eviction_delay(placement: Option<&Placement>, taints: &[Taint]) -> Option<i64> {
    let now = Timestamp::UNIX_EPOCH;
    let new = |taint: &Taint| Taint {
        time_added: None,
        ..taint.clone()
    };
    let evicting = taints.iter().map(new);
    let evicting: Vec<EvictingTaint> = evicting
        .filter_map(|taint| EvictingTaint::new(&taint, now))
        .collect();
    match tolerated(placement, &evicting) {
        Tolerated::Forever => None,
        Tolerated::No => Some(0),
        // A negative `tolerationSeconds` evicts at once.
        Tolerated::Until(end) => Some(end.duration_since(now).as_secs().max(0)),
    }
}

/// Reports whether a binding with this placement tolerates all taints that keep new bindings away from a cluster.
pub(super) fn tolerates_all(placement: Option<&Placement>, taints: &[Taint]) -> bool {
    let tolerations = placement.map(|placement| &placement.cluster_tolerations[..]);
    let tolerations = tolerations.unwrap_or_default();
    let mut taints = taints
        .iter()
        .filter(|taint| taint.effect == NO_EXECUTE || taint.effect == NO_SCHEDULE);
    taints.all(|taint| {
        let value = taint.value.as_deref().unwrap_or_default();
        let mut tolerations = tolerations.iter();
        tolerations.any(|toleration| toleration.tolerates(&taint.key, value, &taint.effect))
    })
}

fn tolerates(toleration: &Toleration, taint: &EvictingTaint) -> bool {
    toleration.tolerates(&taint.key, &taint.value, NO_EXECUTE)
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
    fn a_binding_stays_while_every_taint_is_tolerated() {
        let down = [("down", "", NO_EXECUTE, Some(100))];
        for (about, taint_list, tolerations, expected) in [
            ("no taint", &[][..], json!([]), Tolerated::Forever),
            (
                "another effect",
                &[("down", "", "NoSchedule", None)],
                json!([]),
                Tolerated::Forever,
            ),
            ("no toleration", &down, json!([]), Tolerated::No),
            (
                "any taint",
                &down,
                json!([{"operator": "Exists"}]),
                Tolerated::Forever,
            ),
            (
                "this key",
                &down,
                json!([{"key": "down", "operator": "Exists"}]),
                Tolerated::Forever,
            ),
            (
                "another key",
                &down,
                json!([{"key": "up", "operator": "Exists"}]),
                Tolerated::No,
            ),
            (
                "a toleration of another effect",
                &down,
                json!([{"key": "down", "operator": "Exists", "effect": "NoSchedule"}]),
                Tolerated::No,
            ),
            (
                "equal values",
                &[("zone", "a", NO_EXECUTE, Some(1))],
                json!([{"key": "zone", "value": "a", "effect": NO_EXECUTE}]),
                Tolerated::Forever,
            ),
            (
                "other values",
                &[("zone", "a", NO_EXECUTE, Some(1))],
                json!([{"key": "zone", "value": "b"}]),
                Tolerated::No,
            ),
            (
                "with a limit",
                &down,
                json!([{"key": "down", "operator": "Exists", "tolerationSeconds": 30}]),
                Tolerated::Until(at(130)),
            ),
            (
                "without timeAdded, counted from the observation",
                &[("down", "", NO_EXECUTE, None)],
                json!([{"key": "down", "operator": "Exists", "tolerationSeconds": 30}]),
                Tolerated::Until(at(1030)),
            ),
            (
                "the earliest limit applies",
                &[
                    ("down", "", NO_EXECUTE, Some(100)),
                    ("slow", "", NO_EXECUTE, Some(90)),
                ],
                json!([{"operator": "Exists", "tolerationSeconds": 30}]),
                Tolerated::Until(at(120)),
            ),
            (
                "one is tolerated, the other is not",
                &[
                    ("down", "", NO_EXECUTE, Some(100)),
                    ("slow", "", NO_EXECUTE, Some(90)),
                ],
                json!([{"key": "slow", "operator": "Exists"}]),
                Tolerated::No,
            ),
        ] {
            let found = tolerated(Some(&placement(tolerations)), &taints(taint_list));
            assert_eq!(found, expected, "{about}");
        }
    }

    #[test]
    fn the_first_matching_toleration_is_used() {
        let down = [("down", "", NO_EXECUTE, Some(100))];
        for (about, taint_list, tolerations, expected) in [
            (
                "a later toleration does not shorten it",
                &down[..],
                json!([{"operator": "Exists"},
                    {"key": "down", "operator": "Exists", "tolerationSeconds": 30}]),
                Tolerated::Forever,
            ),
            (
                "a later toleration does not extend it",
                &down[..],
                json!([{"key": "down", "operator": "Exists", "tolerationSeconds": 30},
                    {"operator": "Exists"}]),
                Tolerated::Until(at(130)),
            ),
            (
                "a used toleration limits all taints that it matches",
                &[
                    ("down", "", NO_EXECUTE, Some(100)),
                    ("slow", "", NO_EXECUTE, Some(90)),
                ],
                json!([{"key": "slow", "operator": "Exists"},
                    {"operator": "Exists", "tolerationSeconds": 30}]),
                Tolerated::Until(at(120)),
            ),
        ] {
            let found = tolerated(Some(&placement(tolerations)), &taints(taint_list));
            assert_eq!(found, expected, "{about}");
        }
    }

    #[test]
    fn without_a_placement_the_binding_stays() {
        let taints = taints(&[("down", "", NO_EXECUTE, Some(100))]);
        assert_eq!(tolerated(None, &taints), Tolerated::Forever);
        assert_eq!(
            tolerated(Some(&placement(json!([]))), &taints),
            Tolerated::No
        );
        assert_eq!(
            tolerated(Some(&placement(json!([]))), &[]),
            Tolerated::Forever
        );
    }

    #[test]
    fn a_new_taint_evicts_at_once_after_the_limit_or_never() {
        let taint = Taint {
            key: "gone".to_owned(),
            effect: NO_EXECUTE.to_owned(),
            ..Taint::default()
        };
        let placement = |tolerations: serde_json::Value| -> Placement {
            serde_json::from_value(json!({ "clusterTolerations": tolerations })).unwrap()
        };
        for (tolerations, expected) in [
            (json!([]), Some(0)),
            (json!([{ "key": "gone", "operator": "Exists" }]), None),
            (
                json!([{ "key": "gone", "operator": "Exists", "tolerationSeconds": 300 }]),
                Some(300),
            ),
            (
                json!([{ "key": "gone", "operator": "Exists", "tolerationSeconds": -5 }]),
                Some(0),
            ),
        ] {
            let placement = placement(tolerations);
            let delay = eviction_delay(Some(&placement), std::slice::from_ref(&taint));
            assert_eq!(delay, expected, "{placement:?}");
        }
        let effect = "NoSchedule".to_owned();
        let other = Taint { effect, ..taint };
        assert_eq!(eviction_delay(Some(&placement(json!([]))), &[other]), None);
    }
}
