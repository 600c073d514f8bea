//! Validation of services.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

use super::cluster::refuse_special;
use super::field::Field;
use super::network_policy::cidr;
use crate::error::Cause;
use crate::names;

/// The types of services.
const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

pub(super) fn service(spec: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let before = old.map(|old| &old["spec"]);
    let spec = Field::new(spec, "spec");
    let kind = spec.field("type");
    ports(&spec, causes);
    kind.one_of(TYPES, causes);
    names::labels(spec.field("selector").value, "spec.selector", causes);
    affinity(&spec, causes);
    addresses(&spec, causes);
    if kind.text() == "ExternalName" {
        spec.field("externalName").named(names::subdomain, causes);
    }
    balancer(&spec, causes);
    traffic(&spec, causes);
    // A headless service without a selector may have any family.
    let selects = spec.value["selector"]
        .as_object()
        .is_some_and(|s| !s.is_empty());
    let open = spec.value["clusterIP"] == "None" && !selects;
    let policy = spec.field("ipFamilyPolicy");
    policy.one_of(
        &["PreferDualStack", "RequireDualStack", "SingleStack"],
        causes,
    );
    if policy.text() == "RequireDualStack" && !open {
        let detail = "this cluster is not configured for dual-stack services";
        policy.invalid(detail, causes);
    }
    for family in spec.items("ipFamilies") {
        family.one_of(&["IPv4", "IPv6"], causes);
        if family.text() == "IPv6" && !open {
            family.invalid("not configured on this cluster", causes);
        }
    }
    if let Some(before) = before {
        address(spec.value, before, causes);
        let health_port = |spec: &Value| spec["healthCheckNodePort"].as_i64().filter(|n| *n != 0);
        if health_port(before).is_some()
            && health_port(spec.value).is_some()
            && health_port(before) != health_port(spec.value)
        {
            let health = spec.field("healthCheckNodePort");
            health.forbidden("field is immutable", causes);
        }
    }
}

fn ports(spec: &Field<'_>, causes: &mut Vec<Cause>) {
    let all = spec.field("ports");
    if all.count() == 0 && spec.value["type"] != "ExternalName" && spec.value["clusterIP"] != "None"
    {
        all.required("", causes);
    }
    let mut names: Vec<&str> = Vec::new();
    let mut taken: Vec<(&Value, &Value)> = Vec::new();
    let mut nodes: Vec<(i64, &str)> = Vec::new();
    for port in spec.items("ports") {
        let name = port.field("name");
        if name.text().is_empty() {
            if all.count() > 1 {
                name.required("", causes);
            }
        } else if let Some(problem) = names::dns_label(name.text()) {
            name.invalid(&problem, causes);
        } else if names.contains(&name.text()) {
            name.duplicate(causes);
        }
        names.push(name.text());
        port.field("port").port_number(causes);
        port.field("protocol").one_of(PROTOCOLS, causes);
        let target = port.field("targetPort");
        if target.is_set() && target.value != "" {
            target.port(causes);
        }
        let protocol = port.field("appProtocol");
        if protocol.is_set() {
            protocol.qualified(causes);
        }
        let node = port.field("nodePort");
        let number = node.number().unwrap_or(0);
        let protocol = port.field("protocol").text();
        if number != 0 && nodes.contains(&(number, protocol)) {
            node.invalid("provided port is already allocated", causes);
        }
        nodes.push((number, protocol));
        if number != 0 && spec.value["type"] == "ClusterIP" {
            let detail = "may not be used when `type` is 'ClusterIP'";
            node.forbidden(detail, causes);
        }
        let protocol_and_port = (port.field("protocol").value, port.field("port").value);
        if taken.contains(&protocol_and_port) {
            port.duplicate(causes);
        }
        taken.push(protocol_and_port);
    }
}

fn affinity(spec: &Field<'_>, causes: &mut Vec<Cause>) {
    let affinity = spec.field("sessionAffinity");
    affinity.one_of(&["ClientIP", "None"], causes);
    let seconds = spec
        .field("sessionAffinityConfig")
        .field("clientIP")
        .field("timeoutSeconds");
    let in_time = |seconds: i64| (1..=86_400).contains(&seconds);
    if affinity.text() == "ClientIP" && seconds.number().is_some_and(|s| !in_time(s)) {
        let detail = "must be greater than 0 and less than 86400";
        seconds.invalid(detail, causes);
    }
}

fn addresses(spec: &Field<'_>, causes: &mut Vec<Cause>) {
    let (kind, all) = (spec.field("type"), spec.field("clusterIPs"));
    if kind.text() == "ExternalName" {
        for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"].map(|field| spec.field(field)) {
            if field.count() > 0 || !field.text().is_empty() {
                field.forbidden("may not be set for ExternalName services", causes);
            }
        }
    } else {
        let first = spec.field("clusterIP");
        if all.count() > 0 && first.text().is_empty() {
            all.invalid("must be empty when `clusterIP` is not specified", causes);
        } else if all.count() > 0 && all.value[0] != *first.value {
            all.invalid("first value must match `clusterIP`", causes);
        }
        for address in spec.items("clusterIPs") {
            if address.text() != "None" {
                address.problems(names::ip(address.text()), causes);
                if address.text().parse::<Ipv6Addr>().is_ok() && !first.text().is_empty() {
                    let detail = "IPv6 is not configured on this cluster";
                    Field::new(all.value, address.path.as_str()).invalid(detail, causes);
                }
            } else if matches!(kind.text(), "NodePort" | "LoadBalancer") {
                let detail = format!("may not be set to 'None' for {} services", kind.text());
                address.invalid(&detail, causes);
            }
        }
        let of_one_family = spec
            .items("clusterIPs")
            .filter(|a| a.text().parse::<Ipv4Addr>().is_ok());
        if of_one_family.count() > 1 {
            let detail = "may specify no more than one IP for each IP family";
            all.invalid(detail, causes);
        }
    }
    for address in spec.items("externalIPs") {
        match address.text().parse::<IpAddr>() {
            Ok(ip) => refuse_special(&address, ip, causes),
            Err(_) => address.problems(names::ip(address.text()), causes),
        }
    }
}

/// Checks the fields of load balancers.
fn balancer(spec: &Field<'_>, causes: &mut Vec<Cause>) {
    let balances = spec.value["type"] == "LoadBalancer";
    let detail = "may only be used when `type` is 'LoadBalancer'";
    // Kubernetes spells this field with a capital.
    let ranges = Field::new(
        &spec.value["loadBalancerSourceRanges"],
        "spec.LoadBalancerSourceRanges",
    );
    if ranges.count() > 0 && !balances {
        ranges.forbidden(detail, causes);
    } else {
        for range in ranges.each() {
            cidr(&range, causes);
        }
    }
    for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        let field = spec.field(field);
        if field.is_set() && !balances {
            field.forbidden(detail, causes);
        }
    }
    let class = spec.field("loadBalancerClass");
    if balances && class.is_set() {
        class.qualified(causes);
    }
}

fn traffic(spec: &Field<'_>, causes: &mut Vec<Cause>) {
    let policies = ["Cluster", "Local"];
    spec.field("internalTrafficPolicy")
        .one_of(&policies, causes);
    let (kind, external) = (spec.field("type"), spec.field("externalTrafficPolicy"));
    let reachable = matches!(kind.text(), "NodePort" | "LoadBalancer");
    if reachable {
        external.one_of(&policies, causes);
    } else if !external.text().is_empty() && spec.field("externalIPs").count() == 0 {
        let detail = "may only be set for externally-accessible services";
        external.invalid(detail, causes);
    }
    let health = spec.field("healthCheckNodePort");
    let is_set = health.number().unwrap_or(0) != 0;
    if is_set && !(kind.text() == "LoadBalancer" && external.text() == "Local") {
        let detail =
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        health.invalid(detail, causes);
    }
    let distribution = spec.field("trafficDistribution");
    let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    distribution.one_of(&known, causes);
}

/// Checks that the cluster IP stays.
fn address(spec: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let (before, now) = (&old["clusterIP"], &spec["clusterIP"]);
    let has = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let outside = |spec: &Value| spec["type"] == "ExternalName";
    if has(before) && has(now) && before != now && !outside(old) && !outside(spec) {
        let detail = "may not change once set";
        causes.push(Cause::invalid("spec.clusterIPs[0]", &json!([now]), detail));
    }
}
