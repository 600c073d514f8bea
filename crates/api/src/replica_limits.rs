//! The annotation [`REPLICA_LIMITS`]: limits on the number of replicas that each cluster gets when replicas are divided.
//!
//! ```
//! use berth_api::replica_limits::{Amount, ReplicaFit, ReplicaLimits};
//!
//! let limits = ReplicaLimits::parse(
//!     r#"{"clusters": [{"targetCluster": {"clusterNames": ["member1"]}, "min": 2, "max": "50%"}], "fit": "BestEffort"}"#,
//! )?;
//! assert_eq!(limits.fit, ReplicaFit::BestEffort);
//! assert_eq!(limits.clusters[0].max.map(|max| max.rounded_up(5)), Some(3));
//! # Ok::<(), berth_api::replica_limits::InvalidLimits>(())
//! ```

use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer};

use crate::field_selector::FieldSelector;
use crate::label_selector::LabelSelector;
use crate::placement::ClusterAffinity;
use crate::well_known::REPLICA_LIMITS;

/// The limits of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplicaLimits {
    /// The minimum and maximum of clusters. If several entries select a cluster, all of them hold.
    #[serde(default)]
    pub clusters: Vec<ClusterLimits>,
    /// The distribution of the replicas between the limits.
    #[serde(default)]
    pub spread: ReplicaSpread,
    /// The treatment of replicas for which no cluster has room.
    #[serde(default)]
    pub fit: ReplicaFit,
}

/// The limits of some clusters. They apply to each cluster on its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterLimits {
    /// The clusters. An empty affinity selects all clusters.
    #[serde(default)]
    target_cluster: TargetCluster,
    /// The minimum number of replicas in each of the clusters. A percentage is rounded down.
    pub min: Option<Amount>,
    /// The maximum number of replicas in each of the clusters. A percentage is rounded up.
    pub max: Option<Amount>,
}

/// The fields of a [`ClusterAffinity`]. Unknown fields are errors: a misspelt field would select all clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TargetCluster {
    label_selector: Option<LabelSelector>,
    field_selector: Option<FieldSelector>,
    #[serde(default)]
    cluster_names: Vec<String>,
    #[serde(default, rename = "exclude")]
    exclude_clusters: Vec<String>,
}

/// A number of replicas, or a percentage of the replicas of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Amount {
    /// A number of replicas.
    Replicas(u32),
    /// A percentage, at most 100.
    Percent(u8),
}

/// The distribution of the replicas between the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum ReplicaSpread {
    /// The division preference of the placement decides.
    #[default]
    Preferred,
    /// The numbers of the selected clusters differ by at most one.
    Even,
}

/// The treatment of replicas for which no cluster has room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum ReplicaFit {
    /// All replicas must fit. Otherwise the workload is unschedulable.
    #[default]
    All,
    /// As many replicas as fit are placed, and the others wait for room.
    BestEffort,
}

/// The reason why a value of the annotation is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid annotation {REPLICA_LIMITS}: {0}")]
pub struct InvalidLimits(String);

impl InvalidLimits {
    /// Returns the reason without the name of the annotation.
    pub fn reason(&self) -> &str {
        &self.0
    }
}

/// Maximum length of a value in bytes. A binding contains the value twice, beside its placement.
const MAX_LENGTH: usize = 16 * 1024;

impl ReplicaLimits {
    /// Parses a value of the annotation.
    ///
    /// # Errors
    /// When the value is not a JSON object of this form, when it is longer than 16 KiB, when a selector is invalid, when
    /// an entry has no limit, or when its minimum exceeds its maximum.
    pub fn parse(text: &str) -> Result<Self, InvalidLimits> {
        if text.len() > MAX_LENGTH {
            let reason = format!("{} bytes; at most {MAX_LENGTH} are allowed", text.len());
            return Err(InvalidLimits(reason));
        }
        let limits: Self =
            serde_json::from_str(text).map_err(|error| InvalidLimits(error.to_string()))?;
        for (index, entry) in limits.clusters.iter().enumerate() {
            entry
                .check()
                .map_err(|reason| InvalidLimits(format!("clusters[{index}]: {reason}")))?;
        }
        Ok(limits)
    }
}

impl ClusterLimits {
    /// Returns the affinity that selects the clusters.
    pub fn affinity(&self) -> ClusterAffinity {
        let target = &self.target_cluster;
        ClusterAffinity {
            label_selector: target.label_selector.clone(),
            field_selector: target.field_selector.clone(),
            cluster_names: target.cluster_names.clone(),
            exclude_clusters: target.exclude_clusters.clone(),
        }
    }

    fn check(&self) -> Result<(), String> {
        if let Some(Err(error)) = self
            .target_cluster
            .label_selector
            .as_ref()
            .map(LabelSelector::compile)
        {
            return Err(format!("targetCluster.labelSelector: {error}"));
        }
        if let Some(Err(error)) = self
            .target_cluster
            .field_selector
            .as_ref()
            .map(FieldSelector::compile)
        {
            return Err(format!("targetCluster.fieldSelector: {error}"));
        }
        let exceeds = match (self.min, self.max) {
            (None, None) => return Err("min or max is required".to_owned()),
            (Some(Amount::Replicas(min)), Some(Amount::Replicas(max))) => min > max,
            (Some(Amount::Percent(min)), Some(Amount::Percent(max))) => min > max,
            // The number of replicas decides.
            _ => false,
        };
        if exceeds {
            return Err("min is greater than max".to_owned());
        }
        Ok(())
    }
}

impl Amount {
    /// Returns the number of replicas of a workload with `replicas`. A percentage is rounded down.
    pub fn rounded_down(self, replicas: i64) -> i64 {
        match self {
            Self::Replicas(number) => i64::from(number),
            Self::Percent(percent) => replicas.saturating_mul(i64::from(percent)) / 100,
        }
    }

    /// Returns the number of replicas of a workload with `replicas`. A percentage is rounded up.
    pub fn rounded_up(self, replicas: i64) -> i64 {
        match self {
            Self::Replicas(number) => i64::from(number),
            Self::Percent(percent) => {
                let hundredths = replicas.saturating_mul(i64::from(percent));
                hundredths.saturating_add(99) / 100
            }
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "must be a number of replicas, or a percentage such as \"50%\""
        )]
        enum IntOrString {
            Int(i64),
            String(String),
        }
        const EXPECTED: &str = "a number of replicas, or a percentage from 0% to 100%";
        match IntOrString::deserialize(deserializer)? {
            IntOrString::Int(number) => i32::try_from(number)
                .ok()
                .and_then(|number| u32::try_from(number).ok())
                .map(Self::Replicas)
                .ok_or_else(|| D::Error::invalid_value(Unexpected::Signed(number), &EXPECTED)),
            IntOrString::String(text) => text
                .strip_suffix('%')
                .and_then(|percent| percent.parse().ok())
                .filter(|percent| *percent <= 100)
                .map(Self::Percent)
                .ok_or_else(|| D::Error::invalid_value(Unexpected::Str(&text), &EXPECTED)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_values_are_explained() {
        for (text, reason) in [
            ("", "EOF while parsing a value"),
            (
                r#"{"cluster": []}"#,
                "unknown field `cluster`, expected one of `clusters`, `spread`, `fit`",
            ),
            (
                r#"{"spread": "even"}"#,
                "unknown variant `even`, expected `Preferred` or `Even`",
            ),
            (
                r#"{"clusters": [{"min": "half"}]}"#,
                "invalid value: string \"half\", expected a number of replicas, or a percentage from 0% to 100%",
            ),
            (
                r#"{"clusters": [{"min": -1}]}"#,
                "invalid value: integer `-1`, expected a number of replicas, or a percentage from 0% to 100%",
            ),
            (
                r#"{"clusters": [{"max": "101%"}]}"#,
                "invalid value: string \"101%\", expected a number of replicas, or a percentage from 0% to 100%",
            ),
            (
                r#"{"clusters": [{"max": true}]}"#,
                "must be a number of replicas, or a percentage such as \"50%\"",
            ),
            (
                r#"{"clusters": [{"targetCluster": {"names": ["m1"]}, "max": 1}]}"#,
                "unknown field `names`, expected one of `labelSelector`, `fieldSelector`, `clusterNames`, `exclude`",
            ),
            (
                r#"{"clusters": [{"max": 1}, {}]}"#,
                "clusters[1]: min or max is required",
            ),
            (
                r#"{"clusters": [{"min": 3, "max": 2}]}"#,
                "clusters[0]: min is greater than max",
            ),
        ] {
            let error = ReplicaLimits::parse(text).unwrap_err();
            let found = error.reason().split(" at line ").next();
            assert_eq!(found, Some(reason), "{text}");
            let text = error.to_string();
            let prefix = "invalid annotation scheduling.berth/replica-limits: ";
            assert_eq!(text.strip_prefix(prefix), Some(error.reason()));
        }
        let selector = r#"{"clusters": [{"targetCluster": {"labelSelector": {"matchExpressions": [
            {"key": "tier", "operator": "Is", "values": ["a"]}]}}, "max": 1}]}"#;
        let error = ReplicaLimits::parse(selector).unwrap_err();
        assert!(
            error
                .reason()
                .starts_with("clusters[0]: targetCluster.labelSelector: "),
            "{error}"
        );
    }

    #[test]
    fn defaults_limit_nothing() {
        let limits = ReplicaLimits::parse("{}").unwrap();
        assert_eq!(limits, ReplicaLimits::default());
        assert_eq!(limits.fit, ReplicaFit::All);
        assert_eq!(limits.spread, ReplicaSpread::Preferred);
    }

    /// With the opposite rounding, three clusters with `max: 50%` and `min: 33%` could hold no single replica.
    #[test]
    fn percentages_that_add_up_hold_for_every_number_of_replicas() {
        for replicas in 0..200 {
            for clusters in 1..12 {
                let percent = u8::try_from(100 / clusters).unwrap();
                let minimums = clusters * Amount::Percent(percent).rounded_down(replicas);
                assert!(minimums <= replicas);
                let percent = u8::try_from((100 + clusters - 1) / clusters).unwrap();
                let maximums = clusters * Amount::Percent(percent).rounded_up(replicas);
                assert!(maximums >= replicas);
            }
        }
    }
}
