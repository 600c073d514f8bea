//! Ports of nodes: no two services have the same one.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::error::Cause;
use crate::store::Key;
use crate::verbs::Call;

/// The usual range.
const FIRST: u16 = 30_000;
const COUNT: u16 = 2768;

fn ports(service: &Value) -> impl Iterator<Item = i64> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    ports.filter_map(|port| port["nodePort"].as_i64().filter(|number| *number != 0))
}

/// Gives the ports of a service ports of the nodes, those that it had before where it can; says which ones it asks
/// for that others have.
pub(crate) fn reserve(
    call: &Call,
    key: &Key,
    value: &mut Value,
    old: Option<&Value>,
) -> Vec<Cause> {
    let mut causes = Vec::new();
    let opens = matches!(
        value["spec"]["type"].as_str(),
        Some("NodePort" | "LoadBalancer")
    );
    if !call.resource.is("", "services") || !opens {
        return causes;
    }
    let services = call.shared.store.list("services", None).items;
    let others = services.iter().filter(|service| service.key != *key);
    let mut taken: HashSet<i64> = others
        .flat_map(|service| ports(&service.value()).collect::<Vec<_>>())
        .collect();
    for (i, port) in value["spec"]["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        if port["nodePort"]
            .as_i64()
            .is_some_and(|number| taken.contains(&number))
        {
            let field = format!("spec.ports[{i}].nodePort");
            let why = "provided port is already allocated";
            causes.push(Cause::invalid(field, &port["nodePort"], why));
        }
    }
    taken.extend(ports(value));
    let automatic = value["spec"]["allocateLoadBalancerNodePorts"] != false;
    for port in value["spec"]["ports"].as_array_mut().into_iter().flatten() {
        if !automatic || port["nodePort"].as_i64().unwrap_or(0) != 0 {
            continue;
        }
        let same = |before: &&Value| {
            before["port"] == port["port"] && before["protocol"] == port["protocol"]
        };
        let before = old.and_then(|old| old["spec"]["ports"].as_array()?.iter().find(same));
        let before = before.and_then(|before| before["nodePort"].as_i64());
        let free = |number: &i64| !taken.contains(number);
        let Some(number) = before.filter(free).or_else(|| any().find(free)) else {
            continue;
        };
        port["nodePort"] = json!(number);
        taken.insert(number);
    }
    causes
}

/// The numbers of the range, each once, from somewhere on.
fn any() -> impl Iterator<Item = i64> {
    let [a, b, ..] = *uuid::Uuid::new_v4().as_bytes();
    let start = u16::from_be_bytes([a, b]) % COUNT;
    (0..COUNT).map(move |step| i64::from(FIRST + (start + step) % COUNT))
}
