//! Validation of nodes, storage classes and endpoint slices, and of the finalizers of namespaces.

use std::collections::HashSet;
use std::net::IpAddr;

use berth_apimachinery::quantity::Quantity;
use serde_json::{Value, json};

use super::field::Field;
use super::network_policy::cidr;
use super::placement::EFFECTS;
use crate::builtins::metadata::STANDARD;
use crate::error::Cause;
use crate::names;

/// Checks the finalizers of a namespace; `path` returns the field of each.
pub(super) fn finalizers(value: &Value, path: impl Fn(usize) -> String, causes: &mut Vec<Cause>) {
    let all = value["spec"]["finalizers"].as_array();
    for (i, finalizer) in all.into_iter().flatten().enumerate() {
        let name = finalizer.as_str().unwrap_or_default();
        let problems = names::qualified_name(name);
        for problem in &problems {
            causes.push(Cause::invalid(path(i), finalizer, problem));
        }
        if !name.contains('/') && !STANDARD.contains(&name) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(path(i), finalizer, detail));
        }
    }
}

pub(super) fn node(value: &Value, causes: &mut Vec<Cause>) {
    let mut taken: Vec<(&str, &str)> = Vec::new();
    // Kubernetes reports taints below `metadata`.
    for taint in Field::new(&value["spec"]["taints"], "metadata.taints").each() {
        let (key, content, effect) = (
            taint.field("key"),
            taint.field("value"),
            taint.field("effect"),
        );
        key.qualified(causes);
        content.problems(names::label_value(content.text()), causes);
        if effect.text().is_empty() {
            effect.required("", causes);
        } else {
            effect.one_of(EFFECTS, causes);
        }
        let pair = (key.text(), effect.text());
        if taken.contains(&pair) {
            taint.duplicate(causes);
        }
        taken.push(pair);
    }
    let spec = Field::new(&value["spec"], "spec");
    let ranges = spec.field("podCIDRs");
    let mut families = Vec::new();
    for range in spec.items("podCIDRs") {
        if cidr(&range, causes).is_some() {
            families.push(range.text().contains(':'));
        }
    }
    families.sort_unstable();
    if families.windows(2).any(|pair| pair[0] == pair[1]) {
        let detail = "may specify no more than one CIDR for each IP family";
        ranges.invalid(detail, causes);
    }
    for list in ["capacity", "allocatable"] {
        for (name, amount) in value["status"][list].as_object().into_iter().flatten() {
            let amount = Field::new(amount, format!("status.{list}.{name}"));
            if amount.quantity().is_some_and(|a| a < Quantity::ZERO) {
                amount.invalid("must be greater than or equal to 0", causes);
            }
        }
    }
}

pub(super) fn storage_class(value: &Value, causes: &mut Vec<Cause>) {
    let at = |field: &'static str| Field::new(&value[field], field);
    let provisioner = at("provisioner");
    if provisioner.text().is_empty() {
        provisioner.required("", causes);
    } else {
        let lower = json!(provisioner.text().to_lowercase());
        Field::new(&lower, "provisioner").qualified(causes);
    }
    let parameters = at("parameters");
    if parameters.value.get("").is_some() {
        parameters.invalid("field can not be empty.", causes);
    }
    let policy = at("reclaimPolicy");
    if !policy.text().is_empty() {
        policy.one_of(&["Delete", "Retain"], causes);
    }
    at("volumeBindingMode").one_of(&["Immediate", "WaitForFirstConsumer"], causes);
}

pub(super) fn slice(value: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let family = Field::new(&value["addressType"], "addressType");
    if family.text().is_empty() {
        family.required("", causes);
    } else {
        family.one_of(&["FQDN", "IPv4", "IPv6"], causes);
    }
    if old.is_some_and(|old| old["addressType"] != *family.value) {
        family.invalid("field is immutable", causes);
    }
    // The server may listen on a loopback address.
    let meta = &value["metadata"];
    let is_api = meta["namespace"] == "default" && meta["name"] == "kubernetes";
    for endpoint in Field::new(&value["endpoints"], "endpoints").each() {
        let addresses = endpoint.field("addresses");
        if addresses.count() == 0 {
            addresses.required("must contain at least 1 address", causes);
        }
        for address in endpoint.items("addresses").filter(|_| !is_api) {
            self::address(&address, &addresses, family.text(), causes);
        }
        let host = endpoint.field("hostname");
        host.optional(names::dns_label, causes);
    }
    let mut taken: HashSet<&str> = HashSet::new();
    for port in Field::new(&value["ports"], "ports").each() {
        let name = port.field("name");
        name.optional(names::dns_label, causes);
        if !taken.insert(name.text()) {
            name.duplicate(causes);
        }
        port.field("protocol")
            .one_of(&["SCTP", "TCP", "UDP"], causes);
    }
}

fn address(address: &Field<'_>, all: &Field<'_>, family: &str, causes: &mut Vec<Cause>) {
    if family == "FQDN" {
        return;
    }
    let Ok(ip) = address.text().parse::<IpAddr>() else {
        address.problems(names::ip(address.text()), causes);
        return;
    };
    let is_known = matches!(family, "IPv4" | "IPv6");
    if is_known
        && !matches!(
            (family, ip),
            ("IPv6", IpAddr::V6(_)) | ("IPv4", IpAddr::V4(_))
        )
    {
        all.invalid(&format!("must be an {family} address"), causes);
        return;
    }
    refuse_special(address, ip, causes);
}

/// Refuses unspecified and loopback addresses.
pub(super) fn refuse_special(field: &Field<'_>, ip: IpAddr, causes: &mut Vec<Cause>) {
    if ip.is_unspecified() {
        let detail = "may not be unspecified (0.0.0.0 or ::)";
        field.invalid(detail, causes);
    }
    if ip.is_loopback() {
        let detail = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
        field.invalid(detail, causes);
    }
}
