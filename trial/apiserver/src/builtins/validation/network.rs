//! Validation of ingresses and their classes, network policies and endpoint slices.

use std::net::IpAddr;

use ipnet::IpNet;

use super::checks::{domain_path, port, port_number, public_address, selector};
use super::field::Field;
use super::rules::Check::{
    By, ExactlyOneOf, IfSet, Immutable, OneOf, OptionalText, Present, Required, RequiredOneOf,
    RequiredText, Text, Unique, When,
};
use super::rules::{Rule, apply};
use crate::text_rules;

/// The rules of a reference to an object by API group, kind and name.
const REFERENCE: &[Rule] = &[
    ("apiGroup", OptionalText(text_rules::subdomain)),
    ("kind name", RequiredText(text_rules::path_segment)),
];

pub(super) const INGRESS: &[Rule] = &[
    ("spec", By(rules_or_backend)),
    ("spec.tls[].hosts[]", Text(text_rules::host)),
    ("spec.tls[].secretName", OptionalText(text_rules::subdomain)),
    ("spec.rules[].host", By(host)),
    ("spec.rules[].http", IfSet(&[("paths", Required)])),
    ("spec.rules[].http.paths[]", By(path)),
    ("spec.defaultBackend", IfSet(&[("", By(backend))])),
    (
        "spec.ingressClassName",
        IfSet(&[("", Text(text_rules::subdomain))]),
    ),
];

pub(super) const INGRESS_CLASS: &[Rule] = &[
    ("spec.controller", By(controller)),
    ("spec.parameters", IfSet(REFERENCE)),
    ("spec.parameters.scope", OneOf(&["Cluster", "Namespace"])),
    (
        "spec.parameters",
        When("scope", &["Namespace"], &[("namespace", Present)]),
    ),
];

pub(super) const NETWORK_POLICY: &[Rule] = &[
    ("spec.podSelector", By(selector)),
    (
        "spec.ingress[].ports[] spec.egress[].ports[]",
        By(policy_port),
    ),
    ("spec.ingress[].from[] spec.egress[].to[]", By(peer)),
    ("spec.policyTypes[]", OneOf(&["Ingress", "Egress"])),
];

pub(super) const ENDPOINT_SLICE: &[Rule] = &[
    ("addressType", RequiredOneOf(&["FQDN", "IPv4", "IPv6"])),
    ("addressType", Immutable),
    ("endpoints[].addresses", Required),
    ("endpoints[].hostname", OptionalText(text_rules::dns_label)),
    ("", By(endpoint_addresses)),
    ("ports[].name", OptionalText(text_rules::dns_label)),
    ("ports", Unique("name")),
    ("ports[].protocol", OneOf(&["SCTP", "TCP", "UDP"])),
];

fn rules_or_backend(spec: &Field<'_>) {
    if spec.get("rules").count() == 0 && !spec.get("defaultBackend").is_set() {
        spec.invalid("either `defaultBackend` or `rules` must be specified");
    }
}

fn host(host: &Field<'_>) {
    if host.text().parse::<IpAddr>().is_ok() {
        host.invalid("must be a DNS name, not an IP address");
    } else {
        OptionalText(text_rules::host).apply(host);
    }
}

fn path(entry: &Field<'_>) {
    let (kind, path) = (entry.get("pathType"), entry.get("path"));
    if !kind.is_set() {
        return kind.required("");
    }
    ExactlyOneOf(&["Exact", "ImplementationSpecific", "Prefix"]).apply(&kind);
    let exact = matches!(kind.text(), "Exact" | "Prefix");
    if !path.text().starts_with('/') && (exact || !path.is_empty()) {
        path.invalid("must be an absolute path");
    }
    let steps = path.text().split('/').skip(1);
    let mut inner = steps.take(path.text().matches('/').count().saturating_sub(1));
    if exact && (path.text().ends_with("/..") || inner.any(|step| ["", ".", ".."].contains(&step)))
    {
        path.invalid("must not contain '//', '/./' or '/../'");
    }
    backend(&entry.get("backend"));
}

fn backend(backend: &Field<'_>) {
    let (resource, service) = (backend.get("resource"), backend.get("service"));
    if resource.is_set() == service.is_set() {
        return backend.invalid("exactly one of resource and service must be set");
    }
    if resource.is_set() {
        return apply(REFERENCE, &resource);
    }
    RequiredText(text_rules::dns_label).apply(&service.get("name"));
    let (name, number) = (service.get("port.name"), service.get("port.number"));
    match (name.is_empty(), number.number().unwrap_or(0) == 0) {
        (false, false) => backend.invalid("cannot set both port name and port number"),
        (true, false) => port_number(&number),
        (true, true) => backend.required("port name or number is required"),
        (false, true) => name.problem(text_rules::port_name(name.text())),
    }
}

fn controller(controller: &Field<'_>) {
    if controller.old.is_some() {
        Immutable.apply(controller);
    } else if controller.is_empty() {
        controller.required("");
    } else {
        domain_path(controller);
    }
}

fn policy_port(rule: &Field<'_>) {
    OneOf(&["TCP", "UDP", "SCTP"]).apply(&rule.get("protocol"));
    let (first, last) = (rule.get("port"), rule.get("endPort"));
    if first.is_set() {
        port(&first);
    }
    match (first.number(), last.number()) {
        (_, None) => {}
        (None, Some(_)) => last.invalid("may not be specified without a numeric `port`"),
        (Some(from), Some(to)) if to < from => {
            last.invalid("must be greater than or equal to `port`");
        }
        _ => port_number(&last),
    }
}

fn peer(peer: &Field<'_>) {
    let selectors = [peer.get("podSelector"), peer.get("namespaceSelector")];
    let selects = selectors.iter().any(Field::is_set);
    selectors.iter().for_each(selector);
    let block = peer.get("ipBlock");
    match (block.is_set(), selects) {
        (true, true) => peer.forbidden("may not specify both ipBlock and another peer"),
        (true, false) => self::block(&block),
        (false, false) => peer.required("must specify a peer"),
        (false, true) => {}
    }
}

fn block(block: &Field<'_>) {
    let range = block.get("cidr");
    if range.is_empty() {
        return range.required("");
    }
    let Some(outer) = cidr(&range) else { return };
    for except in block.items("except") {
        if cidr(&except).is_some_and(|inner| !outer.contains(&inner) || outer == inner) {
            except.invalid("must be a strict subset of `cidr`");
        }
    }
}

/// Returns the CIDR range of a field. If the range is invalid, reports the problem and returns `None`.
pub(super) fn cidr(field: &Field<'_>) -> Option<IpNet> {
    let range = field.text().parse::<IpNet>().ok();
    let valid = range.filter(|range| range.addr() == range.network());
    if valid.is_none() {
        field.invalid("must be a CIDR range without host bits, such as 10.9.8.0/24");
    }
    valid
}

fn endpoint_addresses(slice: &Field<'_>) {
    let family = slice.text_of("addressType");
    // The endpoints of the API server may have loopback addresses.
    let meta = &slice.value["metadata"];
    let is_api = meta["namespace"] == "default" && meta["name"] == "kubernetes";
    if family == "FQDN" || is_api {
        return;
    }
    for all in slice.items("endpoints").map(|e| e.get("addresses")) {
        for address in all.each() {
            match (family, address.text().parse::<IpAddr>()) {
                ("IPv4", Ok(IpAddr::V6(_))) | ("IPv6", Ok(IpAddr::V4(_))) => {
                    all.invalid(&format!("must be {family} addresses"));
                }
                _ => public_address(&address),
            }
        }
    }
}
