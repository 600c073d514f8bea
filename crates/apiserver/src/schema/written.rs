//! Lists that Go writes even when they have no items: as null if nobody said anything of them, or if they come from where
//! objects are stored. Only those of which a valid object may have none; the types of k8s-openapi do not tell.

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

/// Marks `schema`, which is `property` of `definition`, if it is one of them.
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
    fn every_name_is_that_of_a_list() {
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
