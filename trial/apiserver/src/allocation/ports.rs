//! Allocation of node ports to one Service.

use serde_json::{Value, json};

use super::invalid;
use super::pool::{Pool, Unavailable};
use crate::error::ApiError;
use crate::store::Key;

/// The allocation of node ports for one write of a Service.
pub(super) struct PortAllocation<'a> {
    pub(super) pool: &'a mut Pool<i64>,
    pub(super) key: &'a Key,
    pub(super) reserved: &'a mut Vec<i64>,
    /// The Service before an update.
    pub(super) old: Option<&'a Value>,
    /// True for a dry run. A dry run accepts a requested port outside of the range.
    pub(super) dry_run: bool,
}

impl PortAllocation<'_> {
    /// Reserves the node ports that a NodePort or LoadBalancer Service requests, and allocates the missing node ports.
    /// A load balancer with `allocateLoadBalancerNodePorts: false` gets only the requested node ports. A load balancer
    /// with `externalTrafficPolicy: Local` also gets a health check port.
    pub(super) fn allocate(mut self, service: &mut Value) -> Result<(), ApiError> {
        let spec = &mut service["spec"];
        let balances = spec["type"] == "LoadBalancer";
        let automatic = spec["type"] == "NodePort"
            || (balances && spec["allocateLoadBalancerNodePorts"] != false);
        if balances || automatic {
            self.each(&mut spec["ports"], automatic)?;
        }
        if balances && spec["externalTrafficPolicy"] == "Local" {
            self.health(spec)?;
        }
        Ok(())
    }

    fn reserve_item(&mut self, requested: i64) -> Result<(), Unavailable> {
        match self.pool.reserve_item(requested, self.key) {
            Err(Unavailable::Outside(_)) if self.dry_run => Ok(()),
            Ok(()) => {
                self.reserved.push(requested);
                Ok(())
            }
            refused => refused,
        }
    }

    fn each(&mut self, ports: &mut Value, automatic: bool) -> Result<(), ApiError> {
        let number = |port: &Value| port["nodePort"].as_i64().unwrap_or(0);
        // Service ports with the same number and different protocols get the same node port.
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
            let requested = Some(number(port)).filter(|number| *number != 0);
            let requested =
                requested.or_else(|| automatic.then(|| same(&given).or_else(|| same(&all)))?);
            let got = match requested {
                Some(requested) => {
                    // Two ports may request the same node port. Validation refuses the Service if these ports conflict.
                    if !self.reserved.contains(&requested) {
                        self.reserve_item(requested).map_err(|refusal| {
                            let field = format!("spec.ports[{i}].nodePort");
                            invalid(self.key, &field, &json!(requested), &describe(refusal))
                        })?;
                    }
                    requested
                }
                None if automatic => self.any("nodePort")?,
                None => continue,
            };
            given.push((port["port"].clone(), got));
            port["nodePort"] = json!(got);
        }
        Ok(())
    }

    fn any(&mut self, what: &str) -> Result<i64, ApiError> {
        let free = self.pool.reserve_any(self.key).ok_or_else(|| {
            ApiError::internal(format!("failed to allocate a {what}: range is full"))
        })?;
        self.reserved.push(free);
        Ok(free)
    }

    fn health(&mut self, spec: &mut Value) -> Result<(), ApiError> {
        let requested = spec["healthCheckNodePort"].as_i64().unwrap_or(0);
        let before = self
            .old
            .and_then(|old| old["spec"]["healthCheckNodePort"].as_i64());
        if requested != 0 && before.is_some_and(|before| before != 0 && before != requested) {
            // Validation refuses the change.
            return Ok(());
        }
        if requested == 0 {
            spec["healthCheckNodePort"] = json!(self.any("HealthCheck NodePort")?);
            return Ok(());
        }
        self.reserve_item(requested).map_err(|refusal| {
            let message = describe(refusal);
            ApiError::internal(format!(
                "failed to allocate requested HealthCheck NodePort {requested}: {message}"
            ))
        })
    }
}

fn describe(refusal: Unavailable) -> String {
    match refusal {
        Unavailable::Taken => "provided port is already allocated".to_owned(),
        Unavailable::Outside(range) => format!("provided port is not in the valid range. {range}"),
    }
}
