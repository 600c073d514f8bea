//! Validation of Services.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::json;

use super::checks::{labels, optionally_qualified, port, port_number, public_address};
use super::field::Field;
use super::network::cidr;
use super::rules::Check::{Between, By, Forbidden, OneOf, RequiredText, Text, When};
use super::rules::Rule;
use crate::error::Cause;
use crate::text_rules;

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const POLICIES: &[&str] = &["Cluster", "Local"];

pub(super) const SERVICE: &[Rule] = &[
    ("", By(ports)),
    ("ports[].port", By(port_number)),
    ("ports[].protocol", OneOf(&["SCTP", "TCP", "UDP"])),
    ("ports[].targetPort", By(target_port)),
    ("ports[].appProtocol", By(optionally_qualified)),
    ("type", OneOf(TYPES)),
    ("selector", By(labels)),
    ("sessionAffinity", OneOf(&["ClientIP", "None"])),
    (
        "sessionAffinityConfig.clientIP.timeoutSeconds",
        Between(1, 86_400),
    ),
    ("externalIPs[]", By(public_address)),
    ("", When("type", &["ExternalName"], EXTERNAL_NAME)),
    (
        "",
        When(
            "type",
            &["ClusterIP", "NodePort", "LoadBalancer"],
            &[("", By(addresses))],
        ),
    ),
    (
        "",
        When(
            "type",
            &["ClusterIP", "NodePort", "ExternalName"],
            NO_LOAD_BALANCER,
        ),
    ),
    ("loadBalancerSourceRanges", By(source_ranges)),
    ("internalTrafficPolicy", OneOf(POLICIES)),
    ("", By(traffic)),
    (
        "trafficDistribution",
        OneOf(&["PreferClose", "PreferSameZone", "PreferSameNode"]),
    ),
    (
        "ipFamilyPolicy",
        OneOf(&["PreferDualStack", "RequireDualStack", "SingleStack"]),
    ),
    ("ipFamilies[]", OneOf(&["IPv4", "IPv6"])),
    ("", By(families)),
    ("", By(allocated_fields_stay)),
];

const EXTERNAL_NAME: &[Rule] = &[
    ("externalName", RequiredText(text_rules::subdomain)),
    (
        "clusterIPs ipFamilies ipFamilyPolicy",
        Forbidden("may not be set for ExternalName services"),
    ),
];

const NO_LOAD_BALANCER: &[Rule] = &[(
    "allocateLoadBalancerNodePorts loadBalancerClass",
    Forbidden("may only be used when `type` is 'LoadBalancer'"),
)];

fn target_port(target: &Field<'_>) {
    if !target.is_empty() {
        port(target);
    }
}

fn ports(spec: &Field<'_>) {
    let all = spec.get("ports");
    let kind = spec.text_of("type");
    if all.count() == 0 && kind != "ExternalName" && spec.text_of("clusterIP") != "None" {
        all.required("");
    }
    let (mut names, mut taken, mut nodes) = (Vec::new(), Vec::new(), Vec::new());
    for port in all.each() {
        let (name, node) = (port.get("name"), port.get("nodePort"));
        let (number, protocol) = (port.get("port").value, port.get("protocol").value);
        if name.is_empty() {
            if all.count() > 1 {
                name.required("");
            }
        } else if let Some(problem) = text_rules::dns_label(name.text()) {
            name.invalid(&problem);
        } else if names.contains(&name.text()) {
            name.duplicate();
        }
        if taken.contains(&(protocol, number)) {
            port.duplicate();
        }
        let on_nodes = node.number().filter(|number| *number != 0);
        if on_nodes.is_some() && nodes.contains(&(on_nodes, protocol)) {
            node.invalid("provided port is already allocated");
        }
        if on_nodes.is_some() && kind == "ClusterIP" {
            node.forbidden("may not be used when `type` is 'ClusterIP'");
        }
        names.push(name.text());
        taken.push((protocol, number));
        nodes.push((on_nodes, protocol));
    }
}

fn source_ranges(ranges: &Field<'_>) {
    // As in Kubernetes, causes spell this field with a capital `L`.
    let ranges = ranges.clone().reported_at("spec.LoadBalancerSourceRanges");
    for range in ranges.each() {
        cidr(&range);
    }
}

fn addresses(spec: &Field<'_>) {
    let (all, first) = (spec.get("clusterIPs"), spec.get("clusterIP"));
    if all.count() > 0 && first.is_empty() {
        all.invalid("must be empty when `clusterIP` is not specified");
    } else if all.count() > 0 && all.value[0] != *first.value {
        all.invalid("first value must match `clusterIP`");
    }
    for address in all.each() {
        if address.text() == "None" {
            if spec.text_of("type") != "ClusterIP" {
                address.invalid("may not be 'None' for services with node ports");
            }
            continue;
        }
        Text(text_rules::ip).apply(&address);
        if address.text().parse::<Ipv6Addr>().is_ok() && !first.is_empty() {
            address.invalid("IPv6 is not configured on this cluster");
        }
    }
    let of_one_family = all.each().filter(|a| a.text().parse::<Ipv4Addr>().is_ok());
    if of_one_family.count() > 1 {
        all.invalid("may specify no more than one IP for each IP family");
    }
}

fn traffic(spec: &Field<'_>) {
    let (kind, external) = (spec.text_of("type"), spec.get("externalTrafficPolicy"));
    if matches!(kind, "NodePort" | "LoadBalancer") {
        OneOf(POLICIES).apply(&external);
    } else if !external.is_empty() && spec.get("externalIPs").count() == 0 {
        external.invalid("may only be set for externally-accessible services");
    }
    let health = spec.get("healthCheckNodePort");
    let is_set = health.number().unwrap_or(0) != 0;
    if is_set && !(kind == "LoadBalancer" && external.text() == "Local") {
        health.invalid("requires a LoadBalancer with externalTrafficPolicy 'Local'");
    }
}

fn families(spec: &Field<'_>) {
    // A headless Service without a selector may have any IP family.
    if spec.text_of("clusterIP") == "None" && spec.get("selector").is_empty() {
        return;
    }
    let policy = spec.get("ipFamilyPolicy");
    if policy.text() == "RequireDualStack" {
        policy.invalid("this cluster is not configured for dual-stack services");
    }
    for family in spec.items("ipFamilies").filter(|f| f.text() == "IPv6") {
        family.invalid("not configured on this cluster");
    }
}

/// Checks that the cluster IP and the health check port do not change.
fn allocated_fields_stay(spec: &Field<'_>) {
    let Some(old) = spec.old.map(|old| spec.with(old)) else {
        return;
    };
    let (before, now) = (old.text_of("clusterIP"), spec.text_of("clusterIP"));
    let outside = [&old, spec]
        .iter()
        .any(|spec| spec.text_of("type") == "ExternalName");
    if !before.is_empty() && !now.is_empty() && before != now && !outside {
        let detail = "may not change once set";
        spec.report(Cause::invalid("spec.clusterIPs[0]", &json!([now]), detail));
    }
    let port = |spec: &Field<'_>| spec.get("healthCheckNodePort").number().unwrap_or(0);
    if port(&old) != 0 && port(spec) != 0 && port(&old) != port(spec) {
        spec.get("healthCheckNodePort")
            .forbidden("field is immutable");
    }
}
