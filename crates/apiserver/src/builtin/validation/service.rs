//! The checks of services.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::{metadata, one_of};
use crate::error::Cause;

/// The kinds of services.
const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

fn port(number: Option<i64>, path: String, causes: &mut Vec<Cause>) {
    let number = number.unwrap_or(0);
    if !(1..=65535).contains(&number) {
        let detail = "must be between 1 and 65535, inclusive";
        causes.push(Cause::invalid(path, &json!(number), detail));
    }
}

pub(super) fn service(spec: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let ports = spec["ports"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if ports.is_empty() && spec["type"] != "ExternalName" && spec["clusterIP"] != "None" {
        causes.push(Cause::required("spec.ports", ""));
    }
    let mut names: Vec<&str> = Vec::new();
    for (i, entry) in ports.iter().enumerate() {
        let at = format!("spec.ports[{i}]");
        let name = entry["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            if ports.len() > 1 {
                causes.push(Cause::required(format!("{at}.name"), ""));
            }
        } else if let Some(problem) = metadata::dns_label(name) {
            causes.push(Cause::invalid(format!("{at}.name"), &json!(name), &problem));
        } else if names.contains(&name) {
            causes.push(Cause::duplicate(format!("{at}.name"), &json!(name)));
        }
        names.push(name);
        port(entry["port"].as_i64(), format!("{at}.port"), causes);
        one_of(
            &entry["protocol"],
            &format!("{at}.protocol"),
            PROTOCOLS,
            causes,
        );
        if entry["targetPort"].is_number() {
            port(
                entry["targetPort"].as_i64(),
                format!("{at}.targetPort"),
                causes,
            );
        }
        let taken = entry["nodePort"].as_i64().unwrap_or(0) != 0;
        if taken && spec["type"] == "ClusterIP" {
            let why = "may not be used when `type` is 'ClusterIP'";
            causes.push(Cause::forbidden(format!("{at}.nodePort"), why));
        }
    }
    one_of(&spec["type"], "spec.type", TYPES, causes);
    one_of(
        &spec["sessionAffinity"],
        "spec.sessionAffinity",
        &["ClientIP", "None"],
        causes,
    );
    let unnamed = spec["externalName"].as_str().unwrap_or_default().is_empty();
    if spec["type"] == "ExternalName" && unnamed {
        causes.push(Cause::required("spec.externalName", ""));
    }
    for list in ["clusterIPs", "externalIPs"] {
        for (i, address) in spec[list].as_array().into_iter().flatten().enumerate() {
            let text = address.as_str().unwrap_or_default();
            if text != "None" && text.parse::<IpAddr>().is_err() {
                let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
                causes.push(Cause::invalid(format!("spec.{list}[{i}]"), address, detail));
            }
        }
    }
    metadata::keys(&spec["selector"], "spec.selector", causes);
    if let Some(old) = old {
        address(spec, &old["spec"], causes);
    }
}

/// The first address of a service stays, as long as it has one.
fn address(spec: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let (before, now) = (&old["clusterIP"], &spec["clusterIP"]);
    let has = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let outside = |spec: &Value| spec["type"] == "ExternalName";
    if has(before) && has(now) && before != now && !outside(old) && !outside(spec) {
        let detail = "may not change once set";
        causes.push(Cause::invalid("spec.clusterIPs[0]", &json!([now]), detail));
    }
}
