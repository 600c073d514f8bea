//! Allocation of items to Services. An item is a node port or a cluster IP.
//!
//! An index observes every change of a Service, so that the search for a free item reads no Services. A write reserves
//! its items until the write ends with or without success. This module must not know how Services are written.

mod pool;
mod ports;

use std::collections::HashMap;
use std::net::Ipv4Addr;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::error::{ApiError, Cause};
use crate::store::{Change, Key, Store, Stored};
use pool::{Pool, Unavailable};

/// The table of Services in the store.
const SERVICES: &str = "services";
/// The default range of node ports. [`ADDRESSES`] is the default service network without its first and last address.
const PORTS: (i64, i64) = (30_000, 32_767);
const ADDRESSES: (Ipv4Addr, Ipv4Addr) = (
    Ipv4Addr::new(10, 96, 0, 1),
    Ipv4Addr::new(10, 111, 255, 254),
);

/// The node ports and cluster IPs of all Services.
#[derive(Debug, Default)]
pub(crate) struct Allocation {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    ports: Pool<i64>,
    addresses: Pool<Ipv4Addr>,
    /// The items of each stored Service.
    allocated: HashMap<Key, ServiceItems>,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            ports: Pool::new(PORTS.0, PORTS.1, (32, 128), "ports", "30000-32767"),
            addresses: Pool::new(ADDRESSES.0, ADDRESSES.1, (16, 256), "IPs", "10.96.0.0/12"),
            allocated: HashMap::new(),
        }
    }
}

/// The node ports and the cluster IP of one Service.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct ServiceItems {
    ports: Vec<i64>,
    addresses: Vec<Ipv4Addr>,
}

impl ServiceItems {
    fn of(service: &Value) -> Self {
        let spec = &service["spec"];
        let ports = spec["ports"].as_array().into_iter().flatten();
        let ports = ports
            .map(|port| &port["nodePort"])
            .chain([&spec["healthCheckNodePort"]]);
        let address = spec["clusterIP"].as_str().and_then(|ip| ip.parse().ok());
        Self {
            ports: ports
                .filter_map(|number| number.as_i64().filter(|number| *number != 0))
                .collect(),
            addresses: address.into_iter().collect(),
        }
    }
}

/// The items that a write has reserved. Dropping this value releases the reservations.
#[derive(Debug)]
#[must_use]
pub(crate) struct Reserved<'a> {
    allocation: &'a Allocation,
    items: ServiceItems,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut inner = self.allocation.inner.lock();
        for port in &self.items.ports {
            inner.ports.cancel(*port);
        }
        for address in &self.items.addresses {
            inner.addresses.cancel(*address);
        }
    }
}

impl Inner {
    fn replace(&mut self, key: &Key, service: Option<&Stored>) {
        let now = service.map(|service| ServiceItems::of(&service.value()));
        let before = match now.clone() {
            Some(now) => self.allocated.insert(key.clone(), now),
            None => self.allocated.remove(key),
        };
        if before == now {
            return;
        }
        for port in before.iter().flat_map(|items| &items.ports) {
            self.ports.release(*port);
        }
        for address in before.iter().flat_map(|items| &items.addresses) {
            self.addresses.release(*address);
        }
        for port in now.iter().flat_map(|items| &items.ports) {
            self.ports.allocate(*port, key);
        }
        for address in now.iter().flat_map(|items| &items.addresses) {
            self.addresses.allocate(*address, key);
        }
    }
}

impl Allocation {
    /// Adds all Services of a store to the index.
    pub(crate) fn load(&self, store: &Store) {
        let mut inner = self.inner.lock();
        for service in store.list(SERVICES, None).items {
            inner.replace(&service.key, Some(&service));
        }
    }

    /// Updates the index after a change. The caller has locked the store.
    pub(crate) fn observe(&self, table: &str, change: &Change) {
        if table != SERVICES {
            return;
        }
        let current = change.current();
        let after = match change {
            Change::Deleted { .. } => None,
            _ => Some(&**current),
        };
        self.inner.lock().replace(&current.key, after);
    }

    /// Allocates the missing items of a Service. Reserves these items and the requested items until the result is
    /// dropped. Fails if a requested item is not available or no item is free.
    pub(crate) fn reserve(
        &self,
        key: &Key,
        service: &mut Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<Reserved<'_>, ApiError> {
        let mut reserved = Reserved {
            allocation: self,
            items: ServiceItems::default(),
        };
        let mut inner = self.inner.lock();
        // An existing cluster IP needs no reservation: validation refuses a change of the IP.
        let had = old.is_some_and(|old| old["spec"]["clusterIP"].is_string());
        let addresses = Some(&mut inner.addresses).filter(|_| !had);
        let given = addresses
            .map_or(Ok(()), |pool| {
                address(pool, key, service, &mut reserved.items, dry_run)
            })
            .and_then(|()| {
                let ports = ports::PortAllocation {
                    pool: &mut inner.ports,
                    key,
                    reserved: &mut reserved.items.ports,
                    old,
                    dry_run,
                };
                ports.allocate(service)
            });
        // `reserved` locks `inner` when it is dropped, so the lock is released first.
        drop(inner);
        given.map(|()| reserved)
    }
}

/// Reserves the cluster IP of a Service, and allocates a missing IP. ExternalName and headless Services get no IP.
fn address(
    pool: &mut Pool<Ipv4Addr>,
    key: &Key,
    service: &mut Value,
    reserved: &mut ServiceItems,
    dry_run: bool,
) -> Result<(), ApiError> {
    let spec = &mut service["spec"];
    let given = spec["clusterIP"].as_str().unwrap_or_default();
    // Validation refuses a Service with `clusterIPs` and without `clusterIP`.
    let alone = spec["clusterIPs"]
        .as_array()
        .is_some_and(|all| !all.is_empty());
    if spec["type"] == "ExternalName" || given == "None" || (given.is_empty() && alone) {
        return Ok(());
    }
    if given.is_empty() {
        let free = pool.reserve_any(key).ok_or_else(|| {
            ApiError::internal("failed to allocate a serviceIP: range is full".to_owned())
        })?;
        reserved.addresses.push(free);
        spec["clusterIP"] = json!(free);
        spec["clusterIPs"] = json!([free]);
        return Ok(());
    }
    let Ok(address) = given.parse::<Ipv4Addr>() else {
        return Ok(());
    };
    match pool.reserve_item(address, key) {
        Ok(()) => {
            reserved.addresses.push(address);
            Ok(())
        }
        Err(refusal) => {
            let message = match refusal {
                Unavailable::Taken => "provided IP is already allocated".to_owned(),
                // A dry run gets a different message, which names the valid range.
                Unavailable::Outside(_) if !dry_run => {
                    "the provided network does not match the current range".to_owned()
                }
                Unavailable::Outside(range) => {
                    format!("the provided IP ({address}) is not in the valid range. {range}")
                }
            };
            let detail = format!("failed to allocate IP {address}: {message}");
            Err(invalid(
                key,
                "spec.clusterIPs",
                &spec["clusterIPs"],
                &detail,
            ))
        }
    }
}

fn invalid(key: &Key, field: &str, value: &Value, detail: &str) -> ApiError {
    let cause = Cause::invalid(field, value, detail);
    ApiError::invalid("", "Service", &key.name, vec![cause])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn service(spec: Value) -> Value {
        json!({"metadata": {"name": "s"}, "spec": spec})
    }

    fn stored(key: &Key, service: &Value) -> Arc<Stored> {
        Arc::new(Stored::new(key.clone(), 1, service).unwrap())
    }

    fn open(number: i64) -> Value {
        service(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": number}]}))
    }

    #[test]
    fn items_stay_reserved_until_the_write_ends() {
        let (all, a, b) = (
            Allocation::default(),
            Key::new("n", "a"),
            Key::new("n", "b"),
        );
        let first = all.reserve(&a, &mut open(30_001), None, false).unwrap();
        let refused = all.reserve(&b, &mut open(30_001), None, false).unwrap_err();
        assert!(refused.message.contains("already allocated"), "{refused:?}");
        drop(first);
        drop(all.reserve(&b, &mut open(30_001), None, false).unwrap());
    }

    #[test]
    fn items_are_released_when_a_service_is_deleted_or_changes_them() {
        let (all, a, b) = (
            Allocation::default(),
            Key::new("n", "a"),
            Key::new("n", "b"),
        );
        let old = stored(&a, &open(30_001));
        all.observe(SERVICES, &Change::Added(old.clone()));
        assert!(all.reserve(&b, &mut open(30_001), None, false).is_err());
        drop(all.reserve(&a, &mut open(30_001), None, false).unwrap());
        let new = stored(&a, &open(30_002));
        all.observe(
            SERVICES,
            &Change::Modified {
                old,
                new: new.clone(),
            },
        );
        drop(all.reserve(&b, &mut open(30_001), None, false).unwrap());
        assert!(all.reserve(&b, &mut open(30_002), None, false).is_err());
        let last = new.clone();
        all.observe(SERVICES, &Change::Deleted { old: new, last });
        drop(all.reserve(&b, &mut open(30_002), None, false).unwrap());
    }

    #[test]
    fn addresses_are_in_the_range_and_unique() {
        let (all, a, b) = (
            Allocation::default(),
            Key::new("n", "a"),
            Key::new("n", "b"),
        );
        let mut given = service(json!({"type": "ClusterIP"}));
        let reserved = all.reserve(&a, &mut given, None, false).unwrap();
        let address = given["spec"]["clusterIP"].clone();
        assert_eq!(given["spec"]["clusterIPs"], json!([address]));
        let mut same = service(json!({"type": "ClusterIP", "clusterIP": address}));
        assert!(all.reserve(&b, &mut same, None, false).is_err());
        drop(reserved);
        let far = service(json!({"type": "ClusterIP", "clusterIP": "10.96.0.0"}));
        let refused = |dry_run| {
            all.reserve(&b, &mut far.clone(), None, dry_run)
                .unwrap_err()
        };
        assert!(refused(true).message.contains("10.96.0.0/12"));
        assert!(
            refused(false)
                .message
                .contains("does not match the current range")
        );
    }

    /// Checks that the server leaves the lower part of the range to users, as long as other ports are free.
    #[test]
    fn low_ports_are_allocated_last() {
        let (all, key) = (Allocation::default(), Key::new("n", "a"));
        let of = |count: i64| {
            let ports: Vec<Value> = (1..=count).map(|port| json!({"port": port})).collect();
            let mut service = service(json!({"type": "NodePort", "ports": ports}));
            let reserved = all.reserve(&key, &mut service, None, false).unwrap();
            let ports = service["spec"]["ports"].as_array().unwrap().iter();
            let least = ports.map(|port| port["nodePort"].as_i64().unwrap()).min();
            drop(reserved);
            least
        };
        assert_eq!(of(2682), Some(30_086));
        assert_eq!(of(2683), Some(30_000));
    }

    #[test]
    fn every_port_of_the_range_is_allocated_once() {
        let (all, key) = (Allocation::default(), Key::new("n", "a"));
        let ports: Vec<Value> = (1..=2768).map(|port| json!({"port": port})).collect();
        let mut full = service(json!({"type": "NodePort", "ports": ports}));
        let reserved = all.reserve(&key, &mut full, None, false).unwrap();
        let mut other = service(json!({"type": "NodePort", "ports": [{"port": 80}]}));
        assert!(
            all.reserve(&Key::new("n", "b"), &mut other, None, false)
                .is_err()
        );
        drop(reserved);
        drop(all.reserve(&key, &mut other, None, false).unwrap());
    }
}
