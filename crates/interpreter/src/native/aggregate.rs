//! Aggregation: builds the status of a template from the members' reports.

mod containers;
mod job;
mod phases;

use std::collections::BTreeMap;
use std::net::IpAddr;

use berth_api::binding::AggregatedStatusItem;
use berth_apimachinery::dns::is_dns_subdomain;
use berth_apimachinery::json_fields::{generation, kind_of, number, text_at};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};

use super::counters::{Counters, counter, put};

/// Returns the new status of a template. Returns `None` if the status is unchanged, or if the kind has no rule.
pub(crate) fn aggregate(
    template: &Value,
    items: &[AggregatedStatusItem],
    now: &Time,
) -> Option<Value> {
    let old = template.get("status").filter(|status| status.is_object());
    let (api_version, kind) = kind_of(template);
    let new = if let Some(counters) = Counters::of(api_version, kind) {
        sum(template, counters, items)
    } else {
        match (api_version, kind) {
            ("v1", "Service") => service(template, items)?,
            ("networking.k8s.io/v1", "Ingress") => addresses(items),
            ("batch/v1", "Job") => job::status(template, items, now)?,
            ("batch/v1", "CronJob") => cron_job(items),
            ("v1", "Pod") => phases::pod(template, items)?,
            ("v1", "PersistentVolume") => phases::volume(items),
            ("v1", "PersistentVolumeClaim") => phases::claim(items),
            _ => return None,
        }
    };
    changed_status(old, new)
}

/// Returns the new status, or `None` if it equals the old status.
pub(crate) fn changed_status(old: Option<&Value>, new: Value) -> Option<Value> {
    // A server may store unset fields as null.
    let mut current = old.cloned().unwrap_or_else(|| json!({}));
    if let Some(fields) = current.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    (new != current).then_some(new)
}

/// Returns the cluster and the report of each member that has reported.
fn reports(items: &[AggregatedStatusItem]) -> impl Iterator<Item = (&str, &Value)> {
    items
        .iter()
        .filter_map(|item| Some((item.cluster_name.as_str(), item.status.as_ref()?)))
}

/// Returns the sum of a counter over the members, at most the maximum of the API.
fn total(items: &[AggregatedStatusItem], field: &str) -> i64 {
    let sum: i64 = reports(items)
        .map(|(_, report)| counter(report, field))
        .sum();
    sum.min(i64::from(i32::MAX))
}

/// Sums the counters over the members. For a kind with an observed generation, the other fields of the old status
/// remain, and the observed generation becomes the template's generation once every member is up to date. For a kind
/// without an observed generation, the other fields are removed.
fn sum(template: &Value, counters: &Counters, items: &[AggregatedStatusItem]) -> Value {
    let old = template.get("status").and_then(Value::as_object);
    let old = old.filter(|_| counters.has_generation);
    let mut status = old.cloned().unwrap_or_default();
    let sum = |field: &str| total(items, field);
    counters.write(&mut status, |field| match field {
        // The API server refuses parts that exceed their total, which a member may report.
        "readyReplicas" | "updatedReplicas" => sum(field).min(sum("replicas")),
        "currentReplicas" if counters.has_generation => sum(field).min(sum("replicas")),
        "availableReplicas" => sum(field).min(sum("readyReplicas")).min(sum("replicas")),
        _ => sum(field),
    });
    if counters.has_generation {
        let current = generation(template);
        let up_to_date = reports(items).filter(|(_, report)| {
            number(report, "observedGeneration") >= number(report, "generation")
                && number(report, "resourceTemplateGeneration") >= current
        });
        if up_to_date.count() == items.len() {
            put(&mut status, "observedGeneration", current);
        }
    } else if let Some(pods) = disrupted_pods(items) {
        status.insert("disruptedPods".to_owned(), pods);
    }
    Value::Object(status)
}

/// Merges the disrupted pods of all members. Each name gets the name of the cluster as a prefix.
fn disrupted_pods(items: &[AggregatedStatusItem]) -> Option<Value> {
    let mut all = Map::new();
    for (cluster, report) in reports(items) {
        let pods = report.get("disruptedPods").and_then(Value::as_object);
        for (pod, time) in pods.into_iter().flatten() {
            all.insert(format!("{cluster}/{pod}"), time.clone());
        }
    }
    (!all.is_empty()).then_some(Value::Object(all))
}

/// Returns the addresses of a Service. Returns `None` for a Service that neither is a load balancer nor has addresses.
fn service(template: &Value, items: &[AggregatedStatusItem]) -> Option<Value> {
    if template.pointer("/spec/type") == Some(&json!("LoadBalancer")) {
        return Some(addresses(items));
    }
    // The Service was a load balancer.
    let mut status = template.get("status").cloned()?;
    let addresses = status.pointer_mut("/loadBalancer/ingress")?;
    let has_addresses = addresses.as_array().is_some_and(|list| !list.is_empty());
    has_addresses.then(|| {
        status["loadBalancer"] = json!({});
        status
    })
}

/// The sort key of an address: addresses with a hostname come first, then addresses with an IP.
type AddressKey = (bool, String, String, bool, String);

/// Merges the load balancer addresses of all members, sorted and without duplicates.
fn addresses(items: &[AggregatedStatusItem]) -> Value {
    let mut all: BTreeMap<AddressKey, Value> = BTreeMap::new();
    for (_, report) in reports(items) {
        let ingress = report.pointer("/loadBalancer/ingress");
        let entries = ingress.and_then(Value::as_array).into_iter().flatten();
        for entry in entries.filter(|entry| is_address(entry)) {
            let text = |pointer: &str| text_at(entry, pointer).to_owned();
            let (host, mode) = (text("/hostname"), text("/ipMode"));
            let key = (host.is_empty(), host, text("/ip"), mode.is_empty(), mode);
            let address = all.entry(key).or_insert_with(|| entry.clone());
            merge_ports(address, entry);
        }
    }
    let all: Vec<Value> = all.into_values().collect();
    if all.is_empty() {
        json!({ "loadBalancer": {} })
    } else {
        json!({ "loadBalancer": { "ingress": all } })
    }
}

/// Reports whether an entry is a valid address. One malformed entry would make the control plane reject the whole
/// status.
fn is_address(entry: &Value) -> bool {
    let is_set = |field: &str| !text_at(entry, &format!("/{field}")).is_empty();
    let is_ip = |text: &str| text.parse::<IpAddr>().is_ok();
    let is_host = |text: &str| is_dns_subdomain(text) && !is_ip(text);
    let has = |field: &str, is_valid: &dyn Fn(&str) -> bool| {
        let text = entry.get(field).map(Value::as_str);
        text.is_none_or(|text| text.is_some_and(|text| text.is_empty() || is_valid(text)))
    };
    let is_port = |port: &Value| port["port"].is_i64() && port["protocol"].is_string();
    let ports = entry.get("ports").map(Value::as_array);
    entry.is_object()
        && has("ip", &is_ip)
        && has("hostname", &is_host)
        && has("ipMode", &|mode| {
            matches!(mode, "Proxy" | "VIP") && is_set("ip")
        })
        && ports.is_none_or(|ports| ports.is_some_and(|ports| ports.iter().all(is_port)))
}

/// Adds the ports of an entry to an address, sorted and without duplicates.
fn merge_ports(address: &mut Value, entry: &Value) {
    let Some(more) = entry.get("ports").and_then(Value::as_array) else {
        return;
    };
    if let Some(address) = address.as_object_mut() {
        let slot = address.entry("ports").or_insert_with(|| json!([]));
        if let Some(ports) = slot.as_array_mut() {
            for port in more {
                if !ports.contains(port) {
                    ports.push(port.clone());
                }
            }
            ports.sort_by_key(|port| {
                let (protocol, error) = (text_at(port, "/protocol"), text_at(port, "/error"));
                (number(port, "port"), protocol.to_owned(), error.to_owned())
            });
        }
    }
}

/// Merges the active Jobs of all members, and selects the latest times.
fn cron_job(items: &[AggregatedStatusItem]) -> Value {
    let mut status = Map::new();
    let active = reports(items).filter_map(|(_, report)| report.get("active")?.as_array());
    let active: Vec<Value> = active.flatten().cloned().collect();
    if !active.is_empty() {
        status.insert("active".to_owned(), Value::Array(active));
    }
    for field in ["lastScheduleTime", "lastSuccessfulTime"] {
        // RFC 3339 times in UTC sort as text.
        let times = reports(items).filter_map(|(_, report)| report.get(field)?.as_str());
        if let Some(latest) = times.max() {
            status.insert(field.to_owned(), json!(latest));
        }
    }
    Value::Object(status)
}

#[cfg(test)]
mod tests;
