//! The resources that a CustomResourceDefinition defines, and the status of the definition.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_apimachinery::jsonpath::Path;
use serde_json::{Value, json};

use super::Snapshot;
use super::builtin_resources::table_name;
use crate::clock;
use crate::resource::{Conversion, NameRule, Put, Resource, ScalePaths, Scope, Source, Style};
use crate::schema::{Schema, custom};
use crate::table::{Columns, CustomColumn};

fn strings(value: &Value) -> Vec<String> {
    value
        .as_array()
        .map(|l| {
            l.iter()
                .filter_map(|s| s.as_str().map(str::to_owned))
                .collect()
        })
        .unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn dotted(path: &Value) -> Option<String> {
    path.as_str().map(|p| p.trim_start_matches('.').to_owned())
}

/// Returns a resource for each served version of a valid definition. `defined_at` is the resourceVersion of the
/// definition.
fn resources(crd: &Value, defined_at: u64) -> Vec<Resource> {
    let spec = &crd["spec"];
    let (group, names) = (text(&spec["group"]), &spec["names"]);
    let versions = spec["versions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    versions
        .iter()
        .filter(|v| v["served"] == true)
        .map(|v| Resource {
            defined_at: Some(defined_at),
            ..resource(spec, &group, names, v)
        })
        .collect()
}

fn resource(spec: &Value, group: &str, names: &Value, version: &Value) -> Resource {
    let json = version["schema"]["openAPIV3Schema"].clone();
    let (status, scale) = (
        &version["subresources"]["status"],
        &version["subresources"]["scale"],
    );
    let plural = text(&names["plural"]);
    Resource {
        group: group.to_owned(),
        version: text(&version["name"]),
        kind: text(&names["kind"]),
        singular: text(&names["singular"]),
        list_kind: text(&names["listKind"]),
        short_names: strings(&names["shortNames"]),
        categories: strings(&names["categories"]),
        scope: if spec["scope"] == "Namespaced" {
            Scope::Namespaced
        } else {
            Scope::Cluster
        },
        style: Style::Stored,
        name_rule: NameRule::Subdomain,
        conversion: Conversion::None,
        status: !status.is_null(),
        scale: (!scale.is_null()).then(|| ScalePaths {
            spec: dotted(&scale["specReplicasPath"]).unwrap_or_default(),
            status: dotted(&scale["statusReplicasPath"]).unwrap_or_default(),
            selector: dotted(&scale["labelSelectorPath"]),
        }),
        generation: true,
        put: Put {
            creates: false,
            needs_version: true,
        },
        source: Source::Custom {
            schema: custom::resource(&json).unwrap_or_else(Schema::open),
            json,
        },
        columns: Columns::Custom(columns(&version["additionalPrinterColumns"])),
        selectable: version["selectableFields"]
            .as_array()
            .map(|l| l.iter().filter_map(|f| dotted(&f["jsonPath"])).collect())
            .unwrap_or_default(),
        table: table_name(group, &plural).into(),
        plural,
        deprecation: (version["deprecated"] == true).then(|| {
            version["deprecationWarning"].as_str().map_or_else(
                || {
                    format!(
                        "{group}/{} {} is deprecated",
                        text(&version["name"]),
                        text(&names["kind"])
                    )
                },
                str::to_owned,
            )
        }),
        defined_at: None,
    }
}

fn columns(json: &Value) -> Vec<CustomColumn> {
    json.as_array()
        .map(|list| {
            list.iter()
                .map(|c| CustomColumn {
                    name: text(&c["name"]),
                    kind: text(&c["type"]),
                    format: text(&c["format"]),
                    description: text(&c["description"]),
                    priority: c["priority"].as_i64().unwrap_or(0),
                    path: c["jsonPath"]
                        .as_str()
                        .and_then(|path| Path::parse(path).ok()),
                })
                .collect()
        })
        .unwrap_or_default()
}

/// Sets the status of a definition: the accepted names, the conditions and the stored versions.
pub(crate) fn set_status(crd: &mut Value, served: &Snapshot) {
    let spec = crd["spec"].clone();
    let (group, plural, kind) = (
        text(&spec["group"]),
        text(&spec["names"]["plural"]),
        text(&spec["names"]["kind"]),
    );
    let conflict = served.all().filter(|r| r.group == group).find_map(|r| {
        if r.plural == plural && !r.is_custom() {
            Some(format!("\"{plural}\" is already in use"))
        } else if r.plural != plural && r.kind == kind {
            Some(format!("\"{kind}\" is already in use"))
        } else {
            None
        }
    });
    let mut stored: BTreeSet<String> = strings(&crd["status"]["storedVersions"])
        .into_iter()
        .collect();
    if let Some(versions) = spec["versions"].as_array() {
        stored.extend(
            versions
                .iter()
                .filter(|v| v["storage"] == true)
                .map(|v| text(&v["name"])),
        );
    }
    let since = |kind: &str, state: &str| {
        crd["status"]["conditions"]
            .as_array()
            .and_then(|l| l.iter().find(|c| c["type"] == kind && c["status"] == state))
            .and_then(|c| c["lastTransitionTime"].as_str().map(str::to_owned))
            .unwrap_or_else(clock::now)
    };
    let condition = |kind: &str, state: &str, reason: &str, message: &str| json!({"type": kind, "status": state, "reason": reason, "message": message, "lastTransitionTime": since(kind, state)});
    let is_accepted = conflict.is_none();
    let conditions = match &conflict {
        None => json!([
            condition("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
            condition(
                "Established",
                "True",
                "InitialNamesAccepted",
                "the initial names have been accepted"
            ),
        ]),
        Some(detail) => json!([
            condition("NamesAccepted", "False", "PluralConflict", detail),
            condition(
                "Established",
                "False",
                "NotAccepted",
                "not all names are accepted"
            ),
        ]),
    };
    let accepted = if is_accepted {
        spec["names"].clone()
    } else {
        json!({"plural": "", "kind": ""})
    };
    crd["status"] = json!({
        "acceptedNames": accepted,
        "conditions": conditions,
        "storedVersions": stored.into_iter().collect::<Vec<_>>(),
    });
}

/// Returns the resources of a definition if its names are accepted.
pub(crate) fn served(crd: &Value, defined_at: u64) -> Vec<Arc<Resource>> {
    let accepted = crd["status"]["conditions"].as_array().is_some_and(|l| {
        l.iter()
            .any(|c| c["type"] == "NamesAccepted" && c["status"] == "True")
    });
    if accepted {
        let resources = resources(crd, defined_at);
        resources.into_iter().map(Arc::new).collect()
    } else {
        Vec::new()
    }
}
