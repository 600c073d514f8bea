//! The status of a template, made of what the members report.

mod job;
mod phases;

use std::collections::BTreeMap;
use std::net::IpAddr;

use berth_api::binding::AggregatedStatusItem;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};

use super::counters::{Counters, counter, number, put};
use super::reflect::generation;
use super::revise::kind_of;

/// The new status of a template, where it differs from the one that it has. Kinds without a rule keep theirs.
pub fn aggregate(template: &Value, items: &[AggregatedStatusItem], now: &Time) -> Option<Value> {
    let old = template.get("status").filter(|status| status.is_object());
    let (api_version, kind) = kind_of(template);
    let new = if let Some(counters) = Counters::of(api_version, kind) {
        sum(template, counters, items)
    } else {
        match (api_version, kind) {
            ("v1", "Service") => {
                if template.pointer("/spec/type") != Some(&json!("LoadBalancer")) {
                    return None;
                }
                addresses(items)
            }
            ("networking.k8s.io/v1", "Ingress") => addresses(items),
            ("batch/v1", "Job") => job::status(old, items, now)?,
            ("batch/v1", "CronJob") => cron_job(items),
            ("v1", "Pod") => phases::pod(items)?,
            ("v1", "PersistentVolume") => phases::volume(items),
            ("v1", "PersistentVolumeClaim") => phases::claim(items),
            _ => return None,
        }
    };
    // A server may write fields that nobody has set as null.
    let mut said = old.cloned().unwrap_or_else(|| json!({}));
    if let Some(fields) = said.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    (new != said).then_some(new)
}

/// What the members report, without those that have not reported yet.
fn reports(items: &[AggregatedStatusItem]) -> impl Iterator<Item = (&str, &Value)> {
    items
        .iter()
        .filter_map(|item| Some((item.cluster_name.as_str(), item.status.as_ref()?)))
}

/// Returns the sum of a counter, within what a counter can be.
fn total(items: &[AggregatedStatusItem], field: &str) -> i64 {
    let sum: i64 = reports(items)
        .map(|(_, report)| counter(report, field))
        .sum();
    sum.min(i64::from(i32::MAX))
}

/// Adds counters up. The observed generation is the template's own once every member has seen it. A kind without
/// generations has nothing but what is added up.
fn sum(template: &Value, counters: Counters, items: &[AggregatedStatusItem]) -> Value {
    let old = template.get("status").and_then(Value::as_object);
    let old = old.filter(|_| counters.generations);
    let mut status = old.cloned().unwrap_or_default();
    counters.write(&mut status, |field| total(items, field));
    if counters.generations {
        let wanted = generation(template);
        let up_to_date = reports(items).filter(|(_, report)| {
            number(report, "observedGeneration") >= number(report, "generation")
                && number(report, "resourceTemplateGeneration") >= wanted
        });
        if up_to_date.count() == items.len() {
            put(&mut status, "observedGeneration", wanted);
        }
    } else if let Some(pods) = disrupted_pods(items) {
        status.insert("disruptedPods".to_owned(), pods);
    }
    Value::Object(status)
}

/// Disrupted pods, by cluster and name.
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

/// Sorts addresses: names of hosts first, then by address.
type AddressKey = (bool, String, String, bool, String);

/// The addresses of all members, each once, sorted.
fn addresses(items: &[AggregatedStatusItem]) -> Value {
    let mut all: BTreeMap<AddressKey, Value> = BTreeMap::new();
    for (_, report) in reports(items) {
        let ingress = report.pointer("/loadBalancer/ingress");
        let entries = ingress.and_then(Value::as_array).into_iter().flatten();
        for entry in entries.filter(|entry| is_address(entry)) {
            let text = |field: &str| {
                let text = entry.get(field).and_then(Value::as_str);
                text.unwrap_or_default().to_owned()
            };
            let (host, mode) = (text("hostname"), text("ipMode"));
            let key = (host.is_empty(), host, text("ip"), mode.is_empty(), mode);
            let known = all.entry(key).or_insert_with(|| entry.clone());
            unite_ports(known, entry);
        }
    }
    let all: Vec<Value> = all.into_values().collect();
    if all.is_empty() {
        json!({ "loadBalancer": {} })
    } else {
        json!({ "loadBalancer": { "ingress": all } })
    }
}

/// Reports whether an entry has the shape of an address. The control plane would refuse the addresses of all members
/// because of one that has not.
fn is_address(entry: &Value) -> bool {
    let is_ip = |ip: &Value| {
        let text = ip.as_str();
        text.is_some_and(|ip| ip.is_empty() || ip.parse::<IpAddr>().is_ok())
    };
    entry.is_object()
        && entry.get("ip").is_none_or(is_ip)
        && entry.get("hostname").is_none_or(Value::is_string)
        && entry.get("ports").is_none_or(Value::is_array)
}

fn unite_ports(known: &mut Value, entry: &Value) {
    let Some(more) = entry.get("ports").and_then(Value::as_array) else {
        return;
    };
    if let Some(known) = known.as_object_mut() {
        let slot = known.entry("ports").or_insert_with(|| json!([]));
        if let Some(ports) = slot.as_array_mut() {
            for port in more {
                if !ports.contains(port) {
                    ports.push(port.clone());
                }
            }
            let text = |port: &Value, field: &str| {
                let text = port.get(field).and_then(Value::as_str);
                text.unwrap_or_default().to_owned()
            };
            ports.sort_by_key(|port| {
                let (protocol, error) = (text(port, "protocol"), text(port, "error"));
                (number(port, "port"), protocol, error)
            });
        }
    }
}

/// All that is active, and the latest times.
fn cron_job(items: &[AggregatedStatusItem]) -> Value {
    let mut status = Map::new();
    let active = reports(items).filter_map(|(_, report)| report.get("active")?.as_array());
    let active: Vec<Value> = active.flatten().cloned().collect();
    if !active.is_empty() {
        status.insert("active".to_owned(), Value::Array(active));
    }
    for field in ["lastScheduleTime", "lastSuccessfulTime"] {
        // Times of one form: the later one is the greater text.
        let times = reports(items).filter_map(|(_, report)| report.get(field)?.as_str());
        if let Some(latest) = times.max() {
            status.insert(field.to_owned(), json!(latest));
        }
    }
    Value::Object(status)
}

#[cfg(test)]
#[path = "aggregate/tests.rs"]
mod tests;
