//! The table of the lists that are served as null if they are absent or empty: Go serializes them without `omitempty`.
//! The table does not contain lists that a valid object must have.

use super::Schema;

const LISTS: &[(&str, &str)] = &[
    ("ClusterRole", "rules"),
    ("ContainerImage", "names"),
    ("EndpointSlice", "endpoints"),
    ("EndpointSlice", "ports"),
    ("HorizontalPodAutoscalerStatus", "currentMetrics"),
    ("LimitRangeSpec", "limits"),
    ("PodFailurePolicy", "rules"),
    ("ProjectedVolumeSource", "sources"),
    ("Role", "rules"),
];

/// Marks the schema of a property if the table contains the property.
pub(super) fn annotate(definition: &str, property: &str, schema: &mut Schema) {
    let name = definition.rsplit('.').next();
    schema.always_written = LISTS
        .iter()
        .any(|(owner, list)| *list == property && Some(*owner) == name);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::builtin::definitions;

    #[test]
    fn every_entry_names_a_list() {
        for (owner, list) in LISTS {
            let suffix = format!(".{owner}");
            let mut found = definitions()
                .iter()
                .filter(|(name, _)| name.ends_with(&suffix));
            let is_list =
                |(_, of): (&String, &serde_json::Value)| of["properties"][*list]["type"] == "array";
            assert!(found.any(is_list), "{owner}.{list}");
        }
    }
}
