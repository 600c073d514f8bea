//! The changes that override policies make to the object of a workload for each cluster.

use berth_apimachinery::field_changes::FieldChange;
use serde::{Deserialize, Serialize};

/// Maximum number of clusters and of fields in a sentence.
const SHOWN: usize = 3;

/// The changes that the same override policies make for clusters with the same result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OverrideChanges {
    /// The names of the clusters.
    pub clusters: Vec<String>,
    /// The override policies with their kinds, such as `OverridePolicy web`.
    pub policies: Vec<String>,
    /// The changed fields: the value of the template, and that for the clusters. `None` if they are not known, for example
    /// because the template cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<FieldChange>>,
}

/// Joins the changes of clusters with equal policies and fields. Groups and their clusters keep the order of `changes`.
pub fn grouped(changes: impl IntoIterator<Item = OverrideChanges>) -> Vec<OverrideChanges> {
    let mut groups: Vec<OverrideChanges> = Vec::new();
    for change in changes {
        let equal = |group: &&mut OverrideChanges| {
            group.policies == change.policies && group.fields == change.fields
        };
        match groups.iter_mut().find(equal) {
            Some(group) => group.clusters.extend(change.clusters),
            None => groups.push(change),
        }
    }
    groups
}

/// Returns all changes in one sentence, or `None` if there are none.
pub(crate) fn summary(changes: &[OverrideChanges]) -> Option<String> {
    let sentences = changes.iter().take(SHOWN).map(|group| {
        let fields = group.fields.as_ref().map(|fields| {
            let fields: Vec<&str> = fields.iter().map(|change| &*change.field).collect();
            list(&fields)
        });
        let clusters: Vec<&str> = group.clusters.iter().map(|name| &**name).collect();
        let (policies, clusters) = (group.policies.join(", "), list(&clusters));
        match fields.as_deref() {
            None => format!("{policies} in {clusters}, with unknown changes"),
            Some("") => format!("{policies} in {clusters}, without a change"),
            Some(fields) if group.policies.len() == 1 => {
                format!("{policies} changes {fields} in {clusters}")
            }
            Some(fields) => format!("{policies} change {fields} in {clusters}"),
        }
    });
    let text = sentences.collect::<Vec<_>>().join("; ");
    match changes.len().saturating_sub(SHOWN) {
        _ if changes.is_empty() => None,
        0 => Some(text),
        more => Some(format!("{text}; and {more} more changes")),
    }
}

fn list(names: &[&str]) -> String {
    let shown = &names[..names.len().min(SHOWN)];
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(cluster: &str, image: &str) -> OverrideChanges {
        OverrideChanges {
            clusters: vec![cluster.to_owned()],
            policies: vec!["OverridePolicy web".to_owned()],
            fields: Some(vec![FieldChange {
                field: "spec.image".to_owned(),
                old: Some(json!("nginx")),
                new: Some(json!(image)),
            }]),
        }
    }

    #[test]
    fn clusters_with_the_same_changes_are_one_group() {
        let groups = grouped([change("m1", "a"), change("m2", "b"), change("m3", "a")]);
        let clusters: Vec<&[String]> = groups.iter().map(|group| &group.clusters[..]).collect();
        assert_eq!(
            clusters,
            [&["m1".to_owned(), "m3".to_owned()][..], &["m2".to_owned()]]
        );
    }

    #[test]
    fn the_sentence_names_policies_fields_and_clusters() {
        let many = (1..=5).map(|index| change(&format!("m{index}"), "a"));
        for (changes, expected) in [
            (vec![], None),
            (
                vec![change("m1", "a")],
                Some("OverridePolicy web changes spec.image in m1"),
            ),
            (
                vec![OverrideChanges {
                    fields: None,
                    ..change("m1", "a")
                }],
                Some("OverridePolicy web in m1, with unknown changes"),
            ),
            (
                vec![OverrideChanges {
                    fields: Some(Vec::new()),
                    ..change("m1", "a")
                }],
                Some("OverridePolicy web in m1, without a change"),
            ),
            (
                grouped(many),
                Some("OverridePolicy web changes spec.image in m1, m2, m3 and 2 more"),
            ),
        ] {
            assert_eq!(summary(&changes).as_deref(), expected);
        }
    }
}
