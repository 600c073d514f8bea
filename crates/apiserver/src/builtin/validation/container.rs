//! The checks of containers, and of the volumes that they mount.

use serde_json::{Value, json};

use super::{metadata, one_of, resources};
use crate::error::Cause;

pub(super) fn pod_spec(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    if spec["containers"].as_array().is_none_or(Vec::is_empty) {
        causes.push(Cause::required(format!("{path}.containers"), ""));
    }
    let mut volumes: Vec<&str> = Vec::new();
    for (i, volume) in spec["volumes"].as_array().into_iter().flatten().enumerate() {
        named(
            volume,
            &format!("{path}.volumes[{i}]"),
            &mut volumes,
            causes,
        );
    }
    let mut names: Vec<&str> = Vec::new();
    for list in ["initContainers", "containers"] {
        for (i, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            let at = format!("{path}.{list}[{i}]");
            named(container, &at, &mut names, causes);
            one(container, &at, causes);
            for (j, mount) in items(container, "volumeMounts") {
                let name = mount["name"].as_str().unwrap_or_default();
                if !name.is_empty() && !volumes.contains(&name) {
                    causes.push(Cause {
                        field: format!("{at}.volumeMounts[{j}].name"),
                        reason: "FieldValueNotFound".to_owned(),
                        message: format!("Not found: \"{name}\""),
                    });
                }
            }
        }
    }
}

fn items<'a>(value: &'a Value, list: &str) -> impl Iterator<Item = (usize, &'a Value)> {
    value[list].as_array().into_iter().flatten().enumerate()
}

/// Its name is a label, and nobody else's.
fn named<'a>(value: &'a Value, at: &str, taken: &mut Vec<&'a str>, causes: &mut Vec<Cause>) {
    let (name, field) = (
        value["name"].as_str().unwrap_or_default(),
        format!("{at}.name"),
    );
    if name.is_empty() {
        causes.push(Cause::required(field, ""));
    } else if let Some(problem) = metadata::dns_label(name) {
        causes.push(Cause::invalid(field, &json!(name), &problem));
    } else if taken.contains(&name) {
        causes.push(Cause::duplicate(field, &json!(name)));
    }
    taken.push(name);
}

fn one(container: &Value, at: &str, causes: &mut Vec<Cause>) {
    let image = container["image"].as_str().unwrap_or_default();
    if image.is_empty() {
        causes.push(Cause::required(format!("{at}.image"), ""));
    } else if image.trim() != image {
        let detail = "must not have leading or trailing whitespace";
        causes.push(Cause::invalid(format!("{at}.image"), &json!(image), detail));
    }
    one_of(
        &container["imagePullPolicy"],
        &format!("{at}.imagePullPolicy"),
        &["Always", "IfNotPresent", "Never"],
        causes,
    );
    for (i, port) in items(container, "ports") {
        let at = format!("{at}.ports[{i}]");
        let number = port["containerPort"].as_i64().unwrap_or(0);
        if number == 0 {
            causes.push(Cause::required(format!("{at}.containerPort"), ""));
        } else if !(1..=65535).contains(&number) {
            let detail = "must be between 1 and 65535, inclusive";
            causes.push(Cause::invalid(
                format!("{at}.containerPort"),
                &json!(number),
                detail,
            ));
        }
        let protocols = ["SCTP", "TCP", "UDP"];
        one_of(
            &port["protocol"],
            &format!("{at}.protocol"),
            &protocols,
            causes,
        );
    }
    for (i, variable) in items(container, "env") {
        let (name, at) = (
            variable["name"].as_str().unwrap_or_default(),
            format!("{at}.env[{i}].name"),
        );
        if name.is_empty() {
            causes.push(Cause::required(at, ""));
        } else if !name.chars().all(|c| (' '..='~').contains(&c) && c != '=') {
            let detail = "a valid environment variable name must consist only of printable ASCII characters other than \
                          '='";
            causes.push(Cause::invalid(at, &json!(name), detail));
        }
    }
    resources(&container["resources"], &format!("{at}.resources"), causes);
}
