//! The structure of Karmada's CustomResourceDefinitions, as lines of text that can be compared: names, scope, versions,
//! columns, and the type, default and bounds of each field. Descriptions are omitted.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value, json};

use super::data_file::{in_repository, read, write};
use super::programs::Definitions;
use super::{RecordError, Recorded, Report};

/// The start of the first line of the file, which continues with the version and the date as JSON.
const RECORDED: &str = "# recorded: ";

/// The path of the names of a kind.
const NAMES: &str = "(names)";

/// The folder of definitions, and the release of Karmada that contains it.
#[derive(Args, Clone, Debug)]
pub struct Release {
    #[command(flatten)]
    definitions: Definitions,
    /// Karmada's release that contains the definitions, such as v1.19.0
    #[arg(long, value_name = "VERSION")]
    release: String,
}

/// Writes the structure of the definitions in a folder. Of kinds that Berth does not install, writes only the names.
///
/// # Errors
/// If the folder contains no definition.
pub fn record(release: &Release) -> Result<Report, RecordError> {
    let mut found = structures(&parse(&release.definitions.texts()?)?);
    let installed = berth_api::crds::all();
    let installed = installed.iter().map(serde_json::to_value);
    let installed = structures(&installed.collect::<Result<Vec<_>, _>>()?);
    for (name, lines) in &mut found {
        if !installed.contains_key(name) {
            lines.retain(|path, _| path == NAMES);
        }
    }
    let recorded = Recorded::today([("karmada", release.release.clone())]);
    let file = path();
    let old = if file.is_file() {
        sections(&read(&file)?)
    } else {
        BTreeMap::new()
    };
    let mut text = format!("{RECORDED}{}\n", json!(recorded));
    for (name, lines) in &found {
        let _ = writeln!(text, "\n{name}");
        for (path, facts) in lines {
            let _ = writeln!(text, "  {path} {facts}");
        }
    }
    let new = sections(&text);
    write(&file, &text)?;
    let as_values = |sections: BTreeMap<String, Structure>| {
        sections
            .into_iter()
            .map(|(name, lines)| (name, json!(lines)))
            .collect()
    };
    Ok(Report::new(file, &as_values(old), &as_values(new)))
}

/// The facts about each path of a version of a definition.
pub type Structure = BTreeMap<String, String>;

/// Reads the recorded structures, keyed by `PLURAL.GROUP/VERSION`.
///
/// # Errors
/// If the file cannot be read.
pub fn recorded() -> Result<BTreeMap<String, Structure>, RecordError> {
    Ok(sections(&read(&path())?))
}

fn path() -> PathBuf {
    in_repository("e2e/data/definitions.txt")
}

/// Returns the sections of a text: a line with a name, and lines with a path and facts, which are indented.
fn sections(text: &str) -> BTreeMap<String, Structure> {
    let mut sections: BTreeMap<String, Structure> = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.trim_start().split_once(' ') {
            Some((path, facts)) if line.starts_with(' ') => {
                let section = sections.entry(name.clone()).or_default();
                section.insert(path.to_owned(), facts.to_owned());
            }
            _ => line.clone_into(&mut name),
        }
    }
    sections
}

/// Returns the CustomResourceDefinitions in texts in YAML.
///
/// # Errors
/// If a text is not valid YAML.
pub fn parse(texts: &[String]) -> Result<Vec<Value>, RecordError> {
    let mut definitions = Vec::new();
    for text in texts {
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(text).map_err(|error| RecordError::Program {
                program: "CustomResourceDefinition".to_owned(),
                message: error.to_string(),
            })?;
        definitions.extend(
            documents
                .into_iter()
                .filter(|document| document["kind"] == "CustomResourceDefinition"),
        );
    }
    Ok(definitions)
}

/// Returns the structure of each version of the definitions, keyed by `PLURAL.GROUP/VERSION`.
pub fn structures(definitions: &[Value]) -> BTreeMap<String, Structure> {
    let mut structures = BTreeMap::new();
    for definition in definitions {
        let spec = &definition["spec"];
        for version in spec["versions"].as_array().into_iter().flatten() {
            let name = definition["metadata"]["name"].as_str().unwrap_or_default();
            let number = version["name"].as_str().unwrap_or_default();
            let mut lines = Structure::new();
            let mut names = spec["names"].clone();
            names["scope"] = spec["scope"].clone();
            lines.insert(NAMES.to_owned(), names.to_string());
            lines.insert("(version)".to_owned(), of_version(version));
            let schema = &version["schema"]["openAPIV3Schema"];
            add_schema("", schema, &mut lines);
            structures.insert(format!("{name}/{number}"), lines);
        }
    }
    structures
}

/// Returns the facts about a version other than its schema.
fn of_version(version: &Value) -> String {
    let mut columns = version["additionalPrinterColumns"].clone();
    for column in columns.as_array_mut().into_iter().flatten() {
        remove(column, &["description"]);
    }
    let is_empty = |value: &Value| value.is_null() || *value == json!({});
    let mut facts = json!({
        "served": version["served"],
        "storage": version["storage"],
        "columns": columns,
        "subresources": version["subresources"],
        "selectableFields": version["selectableFields"],
    });
    if let Some(facts) = facts.as_object_mut() {
        facts.retain(|_, value| !is_empty(value));
    }
    facts.to_string()
}

/// Adds the facts about a schema and about its fields, items and values.
fn add_schema(path: &str, schema: &Value, lines: &mut Structure) {
    let mut facts = schema.clone();
    remove(&mut facts, &["description", "properties"]);
    if let Some(required) = facts.get_mut("required").and_then(Value::as_array_mut) {
        required.sort_by_key(ToString::to_string);
    }
    for nested in ["items", "additionalProperties"] {
        if schema[nested].is_object() {
            remove(&mut facts, &[nested]);
        }
    }
    for bound in ["minimum", "maximum"] {
        // A bound is written as an integer or as a number.
        if let Some(number) = schema[bound].as_f64() {
            facts[bound] = json!(number);
        }
    }
    let name = if path.is_empty() { "." } else { path };
    lines.insert(name.to_owned(), facts.to_string());
    let fields = schema["properties"].as_object();
    for (field, nested) in fields.into_iter().flat_map(Map::iter) {
        add_schema(&format!("{path}.{field}"), nested, lines);
    }
    for (nested, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[nested].is_object() {
            add_schema(&format!("{path}{suffix}"), &schema[nested], lines);
        }
    }
}

fn remove(value: &mut Value, fields: &[&str]) {
    if let Some(object) = value.as_object_mut() {
        object.retain(|field, _| !fields.contains(&field.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn structures_list_fields_without_descriptions() {
        let schema = json!({ "type": "object", "description": "x", "required": ["a"], "properties": {
            "a": { "type": "array", "items": { "type": "string", "description": "x" } },
            "b": { "type": "object", "additionalProperties": { "type": "integer", "minimum": 1 } } } });
        let definition = json!({ "metadata": { "name": "things.example.org" },
            "spec": { "scope": "Cluster", "names": { "kind": "Thing" }, "versions": [
                { "name": "v1", "served": true, "storage": true, "subresources": {},
                    "additionalPrinterColumns": [{ "name": "A", "description": "x" }],
                    "schema": { "openAPIV3Schema": schema } }] } });
        let structures = structures(&[definition]);
        let lines: Vec<String> = structures["things.example.org/v1"]
            .iter()
            .map(|(path, facts)| format!("{path} {facts}"))
            .collect();
        assert_eq!(
            lines,
            [
                r#"(names) {"kind":"Thing","scope":"Cluster"}"#,
                r#"(version) {"columns":[{"name":"A"}],"served":true,"storage":true}"#,
                r#". {"required":["a"],"type":"object"}"#,
                r#".a {"type":"array"}"#,
                r#".a[] {"type":"string"}"#,
                r#".b {"type":"object"}"#,
                r#".b{} {"minimum":1.0,"type":"integer"}"#,
            ]
        );
    }
}
