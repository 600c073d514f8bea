//! JSON Schemas of the extender protocol, for authors of extenders.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use super::wire::{
    BindingArgs, BindingResult, ExtenderArgs, FilterResult, HostPriorityList, PreemptionArgs,
    PreemptionResult,
};

/// Returns the schemas with their file names.
pub(crate) fn documents() -> Vec<(&'static str, Value)> {
    vec![
        ("extender-args.json", document::<ExtenderArgs>()),
        ("extender-filter-result.json", document::<FilterResult>()),
        (
            "extender-host-priority-list.json",
            document::<HostPriorityList>(),
        ),
        (
            "extender-preemption-args.json",
            document::<PreemptionArgs>(),
        ),
        (
            "extender-preemption-result.json",
            document::<PreemptionResult>(),
        ),
        ("extender-binding-args.json", document::<BindingArgs>()),
        ("extender-binding-result.json", document::<BindingResult>()),
    ]
}

fn document<T: JsonSchema>() -> Value {
    SchemaGenerator::new(SchemaSettings::draft2020_12())
        .into_root_schema_for::<T>()
        .to_value()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Compares the published files with the types. If `BERTH_WRITE_SCHEMAS` is set, writes the files instead.
    #[test]
    fn published_schemas_match_the_types() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
        for (name, schema) in documents() {
            let file = folder.join(name);
            let fresh = format!("{schema:#}\n");
            if std::env::var_os("BERTH_WRITE_SCHEMAS").is_some() {
                std::fs::create_dir_all(&folder).unwrap();
                std::fs::write(&file, fresh).unwrap();
                continue;
            }
            let published = std::fs::read_to_string(&file).unwrap_or_default();
            assert!(
                published == fresh,
                "docs/schemas/{name} is stale; run BERTH_WRITE_SCHEMAS=1 cargo test -p berth-scheduler published_schemas"
            );
        }
    }

    #[test]
    fn schemas_use_the_field_names_of_the_protocol() {
        let schema = |name: &str| {
            let mut all = documents().into_iter();
            all.find_map(|(file, schema)| (file == name).then_some(schema))
                .unwrap()
        };
        let required = |schema: &Value| schema["required"].clone();
        let args = schema("extender-args.json");
        assert_eq!(required(&args), serde_json::json!(["binding"]));
        assert_eq!(args["properties"]["binding"]["type"], "object");
        assert!(args["properties"]["clusterNames"].is_object());
        let score = &schema("extender-host-priority-list.json")["$defs"]["HostPriority"]["properties"]
            ["score"];
        assert_eq!(
            (&score["minimum"], &score["maximum"]),
            (&0.into(), &10.into())
        );
        let bind = schema("extender-binding-args.json");
        assert!(bind["properties"]["bindingUID"].is_object(), "{bind:#}");
    }
}
