//! The APIs whose objects are never propagated, from the flag `--skipped-propagating-apis`.

use std::collections::BTreeSet;

/// API groups of Karmada and Berth.
const OWN_GROUPS: [&str; 9] = [
    "cluster.karmada.io",
    "policy.karmada.io",
    "work.karmada.io",
    "config.karmada.io",
    "networking.karmada.io",
    "autoscaling.karmada.io",
    "remedy.karmada.io",
    "apps.karmada.io",
    "scheduling.berth",
];

/// The APIs whose objects are never propagated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedApis {
    groups: BTreeSet<String>,
    /// Skipped versions, as `group/version`.
    versions: BTreeSet<String>,
    /// Skipped kinds: the API version, as `group/version` or `version`, and the kind.
    kinds: BTreeSet<(String, String)>,
}

/// An error about an invalid item of the flag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{token:?} is not an API; write <group>, <group>/<version> or <group>/<version>/<kind>,<kind>, for the core group v1/<kind>"
)]
pub struct SkippedApisError {
    token: String,
}

impl Default for SkippedApis {
    /// Returns the APIs that are skipped regardless of the flag.
    fn default() -> Self {
        let mut groups: BTreeSet<String> = OWN_GROUPS.map(str::to_owned).into();
        groups.insert("events.k8s.io".to_owned());
        Self {
            groups,
            versions: BTreeSet::from(["coordination.k8s.io/v1".to_owned()]),
            kinds: BTreeSet::from([("v1".to_owned(), "Event".to_owned())]),
        }
    }
}

impl SkippedApis {
    /// Parses a list of APIs separated by `;`, and adds the default APIs.
    ///
    /// # Errors
    /// When an item is invalid.
    pub fn parse(list: &str) -> Result<Self, SkippedApisError> {
        let mut skipped = Self::default();
        for token in list.split(';').map(str::trim).filter(|t| !t.is_empty()) {
            skipped.add(token)?;
        }
        Ok(skipped)
    }

    fn add(&mut self, token: &str) -> Result<(), SkippedApisError> {
        let invalid = || SkippedApisError {
            token: token.to_owned(),
        };
        let (first, others) = token
            .split_once(',')
            .map_or((token, None), |(a, b)| (a, Some(b)));
        let parts: Vec<&str> = first.split('/').collect();
        if parts.iter().any(|part| part.is_empty()) {
            return Err(invalid());
        }
        let (api_version, kind) = match parts[..] {
            [group] if others.is_none() => {
                self.groups.insert(group.to_owned());
                return Ok(());
            }
            ["v1", kind] => ("v1".to_owned(), kind),
            [group, version] if others.is_none() => {
                self.versions.insert(format!("{group}/{version}"));
                return Ok(());
            }
            [group, version, kind] => (format!("{group}/{version}"), kind),
            _ => return Err(invalid()),
        };
        for kind in std::iter::once(kind).chain(others.into_iter().flat_map(|o| o.split(','))) {
            // Karmada also accepts `v1/A,v1/B`, so the text before the last slash is ignored.
            let kind = kind.rsplit('/').next().unwrap_or_default().trim();
            if kind.is_empty() {
                return Err(invalid());
            }
            self.kinds.insert((api_version.clone(), kind.to_owned()));
        }
        Ok(())
    }

    /// Reports whether objects of a kind are skipped.
    pub fn contains(&self, group: &str, version: &str, kind: &str) -> bool {
        let api_version = if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        };
        (!group.is_empty() && self.groups.contains(group))
            || self.versions.contains(&api_version)
            || self.kinds.contains(&(api_version, kind.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_an_item_skips_its_kinds() {
        let skipped = SkippedApis::parse(
            "batch;networking.k8s.io/v1;apps/v1/DaemonSet,ReplicaSet;v1/Pod,Secret",
        )
        .unwrap();
        for (group, version, kind, expected) in [
            ("batch", "v1", "Job", true),
            ("networking.k8s.io", "v1", "Ingress", true),
            ("networking.k8s.io", "v1beta1", "Ingress", false),
            ("apps", "v1", "DaemonSet", true),
            ("apps", "v1", "ReplicaSet", true),
            ("apps", "v1", "Deployment", false),
            ("", "v1", "Pod", true),
            ("", "v1", "Secret", true),
            ("", "v1", "ConfigMap", false),
            ("", "v1", "Event", true),
            ("events.k8s.io", "v1", "Event", true),
            ("coordination.k8s.io", "v1", "Lease", true),
            ("policy.karmada.io", "v1alpha1", "PropagationPolicy", true),
            ("scheduling.berth", "v1alpha1", "ClusterScore", true),
            (
                "apiextensions.k8s.io",
                "v1",
                "CustomResourceDefinition",
                false,
            ),
        ] {
            assert_eq!(
                skipped.contains(group, version, kind),
                expected,
                "{group}/{version} {kind}"
            );
        }
    }

    #[test]
    fn invalid_items_are_refused() {
        for token in ["a/b/c/d", "/v1", "apps/v1/", "apps/v1/A,,B", "batch,apps"] {
            assert!(SkippedApis::parse(token).is_err(), "{token}");
        }
        assert_eq!(SkippedApis::parse(""), Ok(SkippedApis::default()));
    }
}
