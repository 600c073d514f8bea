//! Warnings about services.

use std::net::Ipv4Addr;

use serde_json::Value;

use super::text;

/// Warns about a service.
pub(super) fn service(value: &Value, warnings: &mut Vec<String>) {
    let spec = &value["spec"];
    let mut say = |what: &str| warnings.push(what.to_owned());
    if !value["metadata"]["annotations"]["service.kubernetes.io/topology-aware-hints"].is_null() {
        say(
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead",
        );
    }
    let external = spec["externalIPs"]
        .as_array()
        .is_some_and(|ips| !ips.is_empty());
    let outside = spec["type"] == "ExternalName";
    if spec["clusterIP"] == "None" {
        if external {
            say("spec.externalIPs is ignored for headless services");
        }
        if spec["sessionAffinity"] == "ClientIP" {
            say("spec.SessionAffinity is ignored for headless services");
        }
    } else if external && outside {
        say("spec.externalIPs is ignored when spec.type is \"ExternalName\"");
    } else if external {
        say("spec.externalIPs is deprecated and may no longer be implemented in some clusters");
    }
    if !outside && !text(spec, "externalName").is_empty() {
        say("spec.externalName is ignored when spec.type is not \"ExternalName\"");
    }
    if spec["trafficDistribution"] == "PreferClose" {
        say("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"");
    }
    let balancer = text(spec, "loadBalancerIP");
    if let Some(plain) = without_zeros(balancer) {
        say(&format!(
            "spec.loadBalancerIP: non-standard IP address \"{balancer}\" is invalid: use \"{plain}\""
        ));
    }
}

/// Returns the normal form of an IPv4 address with leading zeros.
fn without_zeros(address: &str) -> Option<Ipv4Addr> {
    let numbers: Vec<u8> = address
        .split('.')
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    let plain = Ipv4Addr::from(<[u8; 4]>::try_from(numbers).ok()?);
    (plain.to_string() != address).then_some(plain)
}
