//! Validation of network policies.

use std::net::IpAddr;

use serde_json::Value;

use super::field::Field;
use super::selector;
use crate::error::Cause;

pub(super) fn network_policy(value: &Value, causes: &mut Vec<Cause>) {
    let spec = Field::new(&value["spec"], "spec");
    selector::labels(&spec.field("podSelector"), causes);
    for (list, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.items(list) {
            for port in rule.items("ports") {
                self::port(&port, causes);
            }
            for peer in rule.items(peers) {
                self::peer(&peer, causes);
            }
        }
    }
    let types = spec.field("policyTypes");
    if types.count() > 2 {
        types.invalid("may not specify more than two policyTypes", causes);
        return;
    }
    for kind in types.each() {
        kind.one_of(&["Ingress", "Egress"], causes);
    }
}

fn port(rule: &Field<'_>, causes: &mut Vec<Cause>) {
    rule.field("protocol")
        .one_of(&["TCP", "UDP", "SCTP"], causes);
    let (port, end) = (rule.field("port"), rule.field("endPort"));
    if port.is_set() {
        port.port(causes);
    }
    let Some(last) = end.number() else { return };
    if !port.is_set() {
        end.invalid("may not be specified when `port` is not specified", causes);
    } else if let Some(first) = port.number() {
        if last < first {
            end.invalid("must be greater than or equal to `port`", causes);
        }
        end.port_number(causes);
    } else {
        end.invalid("may not be specified when `port` is non-numeric", causes);
    }
}

fn peer(peer: &Field<'_>, causes: &mut Vec<Cause>) {
    let mut selectors = 0;
    for field in ["podSelector", "namespaceSelector"] {
        let field = peer.field(field);
        if field.is_set() {
            selectors += 1;
            selector::labels(&field, causes);
        }
    }
    let block = peer.field("ipBlock");
    if block.is_set() && selectors > 0 {
        peer.forbidden("may not specify both ipBlock and another peer", causes);
    } else if block.is_set() {
        self::block(&block, causes);
    } else if selectors == 0 {
        peer.required("must specify a peer", causes);
    }
}

fn block(block: &Field<'_>, causes: &mut Vec<Cause>) {
    let range = block.field("cidr");
    if range.text().is_empty() {
        range.required("", causes);
        return;
    }
    let Some(outer) = cidr(&range, causes) else {
        return;
    };
    for except in block.items("except") {
        if let Some(inner) = cidr(&except, causes)
            && !outer.strictly_contains(&inner)
        {
            except.invalid("must be a strict subset of `cidr`", causes);
        }
    }
}

/// A CIDR range.
pub(super) struct Range {
    address: u128,
    length: u32,
    width: u32,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        let (address, width) = match address.parse().ok()? {
            IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
            IpAddr::V6(v6) => (v6.to_bits(), 128),
        };
        let length = length.parse().ok().filter(|length| *length <= width)?;
        Some(Self {
            address,
            length,
            width,
        })
    }

    /// Returns a mask of the host bits.
    fn rest(&self, length: u32) -> u128 {
        1_u128
            .checked_shl(self.width - length)
            .map_or(u128::MAX, |bit| bit - 1)
    }

    /// Reports whether another range is a strict subset.
    fn strictly_contains(&self, other: &Self) -> bool {
        self.width == other.width
            && self.length < other.length
            && self.address | self.rest(self.length) == other.address | self.rest(self.length)
    }
}

/// Parses a CIDR range, or reports the problem.
pub(super) fn cidr(field: &Field<'_>, causes: &mut Vec<Cause>) -> Option<Range> {
    let Some(range) = Range::parse(field.text()) else {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        field.invalid(detail, causes);
        return None;
    };
    if range.address & range.rest(range.length) != 0 {
        field.invalid("must not have bits set beyond the prefix length", causes);
        return None;
    }
    Some(range)
}
