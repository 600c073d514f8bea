//! The ports of nodes that a service gets.

use serde_json::{Value, json};

use super::invalid;
use super::pool::{Pool, Refusal};
use crate::error::ApiError;
use crate::store::Key;

/// Gives each port of a service a port of the nodes, and its balancer one to ask for the health of nodes.
pub(super) fn give(
    pool: &mut Pool<i64>,
    key: &Key,
    service: &mut Value,
    asked: &mut Vec<i64>,
) -> Result<(), ApiError> {
    let spec = &mut service["spec"];
    let balances = spec["type"] == "LoadBalancer";
    let automatic =
        spec["type"] == "NodePort" || (balances && spec["allocateLoadBalancerNodePorts"] != false);
    if balances || automatic {
        each(pool, key, &mut spec["ports"], automatic, asked)?;
    }
    if balances && spec["externalTrafficPolicy"] == "Local" {
        health(pool, key, spec, asked)?;
    }
    Ok(())
}

fn each(
    pool: &mut Pool<i64>,
    key: &Key,
    ports: &mut Value,
    automatic: bool,
    asked: &mut Vec<i64>,
) -> Result<(), ApiError> {
    let number = |port: &Value| port["nodePort"].as_i64().unwrap_or(0);
    // Ports of the same number, for which only the protocol differs, share one of the nodes.
    let all: Vec<(Value, i64)> = ports
        .as_array()
        .into_iter()
        .flatten()
        .map(|port| (port["port"].clone(), number(port)))
        .collect();
    let mut given: Vec<(Value, i64)> = Vec::new();
    for (i, port) in ports.as_array_mut().into_iter().flatten().enumerate() {
        let same = |list: &[(Value, i64)]| {
            let mut list = list.iter();
            let found = list.find(|(of, number)| *of == port["port"] && *number != 0);
            found.map(|(_, number)| *number)
        };
        let wanted = Some(number(port)).filter(|number| *number != 0);
        let wanted = wanted.or_else(|| automatic.then(|| same(&given).or_else(|| same(&all)))?);
        let got = match wanted {
            Some(wanted) => {
                // Whether one port has it twice is for the checks to say.
                if !asked.contains(&wanted) {
                    pool.ask(wanted, key).map_err(|refusal| {
                        let field = format!("spec.ports[{i}].nodePort");
                        invalid(key, &field, &json!(wanted), &said(refusal))
                    })?;
                    asked.push(wanted);
                }
                wanted
            }
            None if automatic => {
                let free = pool.any(key).ok_or_else(|| {
                    ApiError::internal("failed to allocate a nodePort: range is full".to_owned())
                })?;
                asked.push(free);
                free
            }
            None => continue,
        };
        given.push((port["port"].clone(), got));
        port["nodePort"] = json!(got);
    }
    Ok(())
}

fn health(
    pool: &mut Pool<i64>,
    key: &Key,
    spec: &mut Value,
    asked: &mut Vec<i64>,
) -> Result<(), ApiError> {
    let wanted = spec["healthCheckNodePort"].as_i64().unwrap_or(0);
    if wanted == 0 {
        let free = pool.any(key).ok_or_else(|| {
            ApiError::internal(
                "failed to allocate a HealthCheck NodePort: range is full".to_owned(),
            )
        })?;
        asked.push(free);
        spec["healthCheckNodePort"] = json!(free);
        return Ok(());
    }
    pool.ask(wanted, key).map_err(|refusal| {
        let why = said(refusal);
        ApiError::internal(format!(
            "failed to allocate requested HealthCheck NodePort {wanted}: {why}"
        ))
    })?;
    asked.push(wanted);
    Ok(())
}

fn said(refusal: Refusal) -> String {
    match refusal {
        Refusal::Taken => "provided port is already allocated".to_owned(),
        Refusal::Outside(range) => format!("provided port is not in the valid range. {range}"),
    }
}
