//! The JSON Schema of the configuration file, for editors.

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::configuration::SchedulerConfiguration;

/// Returns the JSON Schema of [`SchedulerConfiguration`].
pub fn document() -> Value {
    SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<SchedulerConfiguration>()
        .to_value()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Compares the published schema with the types. If `BERTH_WRITE_SCHEMAS` is set, writes the schema instead.
    #[test]
    fn published_schema_matches_the_types() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs/schemas/scheduler-configuration.json");
        let fresh = format!("{:#}\n", document());
        if std::env::var_os("BERTH_WRITE_SCHEMAS").is_some() {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, fresh).unwrap();
            return;
        }
        let published = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            published == fresh,
            "docs/schemas/scheduler-configuration.json is stale: BERTH_WRITE_SCHEMAS=1 cargo test -p berth-scheduler published_schema"
        );
    }

    #[test]
    fn schema_rejects_unknown_fields_like_the_parser() {
        let schema = document();
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(
            schema["required"],
            serde_json::json!(["apiVersion", "kind"])
        );
        for definition in ["ProfileConfig", "PluginsConfig", "PointConfig", "PluginRef"] {
            assert_eq!(
                schema["$defs"][definition]["additionalProperties"], false,
                "{definition}"
            );
        }
    }
}
