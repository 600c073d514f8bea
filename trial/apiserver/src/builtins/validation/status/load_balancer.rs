//! Validation of the addresses of load balancers in the status of Services and Ingresses.

use std::net::IpAddr;

use super::super::field::Field;
use super::super::rules::Check::{OneOf, OptionalText};
use crate::text_rules;

/// Checks the addresses of a Service. Only a load balancer has addresses.
pub(super) fn of_service(service: &Field<'_>) {
    let addresses = service.get("status.loadBalancer.ingress");
    if service.text_of("spec.type") != "LoadBalancer" && addresses.count() > 0 {
        return addresses.forbidden("may only be used when `spec.type` is 'LoadBalancer'");
    }
    for address in addresses.each() {
        let mode = address.get("ipMode");
        match (mode.is_set(), address.get("ip").is_empty()) {
            (false, false) => mode.required("must be specified when `ip` is set"),
            (true, true) => mode.forbidden("may not be specified when `ip` is not set"),
            _ => OneOf(&["Proxy", "VIP"]).apply(&mode),
        }
        host_and_ip(&address);
    }
}

/// Checks the addresses of an Ingress.
pub(super) fn of_ingress(status: &Field<'_>) {
    for address in status.items("loadBalancer.ingress") {
        host_and_ip(&address);
    }
}

fn host_and_ip(address: &Field<'_>) {
    OptionalText(text_rules::ip).apply(&address.get("ip"));
    let host = address.get("hostname");
    OptionalText(text_rules::subdomain).apply(&host);
    if host.text().parse::<IpAddr>().is_ok() {
        host.invalid("must be a DNS name, not an IP address");
    }
}
