//! The free devices of the nodes by device class (dynamic resource allocation), updated with each event about a
//! ResourceSlice, a DeviceClass or a ResourceClaim.
//!
//! Pods request devices of a class by a name of a resource: `deviceclass.resource.kubernetes.io/CLASS`, or the extended
//! resource that the class names. kube-scheduler creates a claim for such a pod, so that the claims contain all
//! allocated devices.
//!
//! The counts never exceed the devices that kube-scheduler would allocate for one class. Classes are counted
//! separately: a device that belongs to two classes counts in both.

mod attributes;
mod class;
mod pool;
mod selectors;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use berth_api::node_resources::device_class;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};

use self::class::Class;
use self::pool::{Pool, PoolKey, Slice};

/// Namespace and name of a claim.
type ClaimKey = (String, String);

/// The free devices of a cluster by class and node.
#[derive(Debug, Default)]
pub struct Devices {
    classes: BTreeMap<String, Class>,
    /// The classes by extended resource.
    by_resource: HashMap<String, String>,
    pools: HashMap<PoolKey, Pool>,
    /// The pools of the slices.
    pool_of: HashMap<String, PoolKey>,
    /// The pools with devices of a node.
    pools_on: HashMap<Arc<str>, BTreeSet<PoolKey>>,
    /// The allocated devices of the claims.
    claims: HashMap<ClaimKey, Vec<(PoolKey, String)>>,
    /// The numbers of free devices by class and node. Nodes without free devices have no entry.
    free: BTreeMap<String, HashMap<Arc<str>, i64>>,
}

impl Devices {
    /// Returns the numbers of free devices by node, if the resource stands for the devices of a class. Nodes without
    /// free devices have no entry.
    pub(crate) fn free(&self, resource: &str) -> Option<&HashMap<Arc<str>, i64>> {
        let by_name = device_class(resource).and_then(|class| self.free.get(class));
        by_name.or_else(|| self.free.get(self.by_resource.get(resource)?))
    }

    /// Adds or updates a slice.
    pub fn apply_slice(&mut self, slice: &ResourceSlice) {
        let name = slice.metadata.name.as_deref().unwrap_or_default();
        let key = PoolKey {
            driver: slice.spec.driver.as_str().into(),
            pool: slice.spec.pool.name.as_str().into(),
        };
        if self.pool_of.get(name).is_some_and(|pool| *pool != key) {
            self.remove_slice(name);
        }
        let slice = Slice::of(slice, &self.classes);
        self.pool_of.insert(name.to_owned(), key.clone());
        self.update_pool(&key, |pool| pool.insert(name, slice));
    }

    /// Removes a slice.
    pub fn remove_slice(&mut self, name: &str) {
        if let Some(key) = self.pool_of.remove(name) {
            self.update_pool(&key, |pool| pool.remove(name));
        }
    }

    /// Removes the slices that do not satisfy the condition.
    pub fn retain_slices(&mut self, is_kept: impl Fn(&str) -> bool) {
        let names = self.pool_of.keys().filter(|name| !is_kept(name));
        for name in names.cloned().collect::<Vec<_>>() {
            self.remove_slice(&name);
        }
    }

    /// Adds or updates a class.
    pub fn apply_class(&mut self, class: &DeviceClass) {
        let name = class.metadata.name.as_deref().unwrap_or_default();
        let compiled = Class::of(class);
        if let Some(error) = compiled.selectors.error() {
            tracing::warn!(class = name, %error, "a selector of a device class is invalid, so its devices are not counted");
        }
        for pool in self.pools.values_mut() {
            pool.apply_class(name, &compiled);
        }
        self.classes.insert(name.to_owned(), compiled);
        self.free.entry(name.to_owned()).or_default();
        self.classes_changed();
    }

    /// Removes a class.
    pub fn remove_class(&mut self, name: &str) {
        for pool in self.pools.values_mut() {
            pool.remove_class(name);
        }
        self.classes.remove(name);
        self.free.remove(name);
        self.classes_changed();
    }

    /// Removes the classes that do not satisfy the condition.
    pub fn retain_classes(&mut self, is_kept: impl Fn(&str) -> bool) {
        let names = self.classes.keys().filter(|name| !is_kept(name));
        for name in names.cloned().collect::<Vec<_>>() {
            self.remove_class(&name);
        }
    }

    /// Adds or updates a claim. A claim without an allocation has no devices.
    pub fn apply_claim(&mut self, claim: &ResourceClaim) {
        let key = (
            claim.metadata.namespace.clone().unwrap_or_default(),
            claim.metadata.name.clone().unwrap_or_default(),
        );
        let allocated = allocated_devices(claim);
        if self.claims.get(&key).map_or(&[][..], Vec::as_slice) == allocated {
            return;
        }
        self.remove_claim(&key.0, &key.1);
        for (pool, device) in &allocated {
            self.update_pool(pool, |pool| pool.allocate(device));
        }
        if !allocated.is_empty() {
            self.claims.insert(key, allocated);
        }
    }

    /// Removes a claim.
    pub fn remove_claim(&mut self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        for (pool, device) in self.claims.remove(&key).into_iter().flatten() {
            self.update_pool(&pool, |pool| pool.release(&device));
        }
    }

    /// Removes the claims that do not satisfy the condition about namespace and name.
    pub fn retain_claims(&mut self, is_kept: impl Fn(&str, &str) -> bool) {
        let keys = self.claims.keys();
        let removed = keys.filter(|(namespace, name)| !is_kept(namespace, name));
        for (namespace, name) in removed.cloned().collect::<Vec<_>>() {
            self.remove_claim(&namespace, &name);
        }
    }

    /// Changes a pool, and counts the free devices of its nodes.
    fn update_pool(&mut self, key: &PoolKey, change: impl FnOnce(&mut Pool)) {
        let pool = self.pools.entry(key.clone()).or_default();
        let before = pool.nodes();
        change(pool);
        let after = pool.nodes();
        if pool.is_empty() {
            self.pools.remove(key);
        }
        for node in before.difference(&after) {
            if let Some(pools) = self.pools_on.get_mut(node) {
                pools.remove(key);
                if pools.is_empty() {
                    self.pools_on.remove(node);
                }
            }
        }
        for node in after.difference(&before) {
            let pools = self.pools_on.entry(Arc::clone(node)).or_default();
            pools.insert(key.clone());
        }
        for node in before.union(&after) {
            self.count(node);
        }
    }

    fn classes_changed(&mut self) {
        self.by_resource = class::by_extended_resource(&self.classes);
        for node in self.pools_on.keys().cloned().collect::<Vec<_>>() {
            self.count(&node);
        }
    }

    /// Counts the free devices of a node.
    fn count(&mut self, node: &Arc<str>) {
        let classes = self.classes.keys();
        let mut counts: BTreeMap<&str, Option<i64>> =
            classes.map(|class| (class.as_str(), Some(0))).collect();
        for key in self.pools_on.get(node).into_iter().flatten() {
            if let Some(pool) = self.pools.get(key) {
                pool.add_free(node, &mut counts);
            }
        }
        for (class, count) in counts {
            let Some(free) = self.free.get_mut(class) else {
                continue;
            };
            match count {
                Some(count) if count > 0 => drop(free.insert(Arc::clone(node), count)),
                Some(_) | None => drop(free.remove(node)),
            }
        }
    }
}

/// Returns the devices that are allocated to a claim. Access for administrators takes no device.
fn allocated_devices(claim: &ResourceClaim) -> Vec<(PoolKey, String)> {
    let status = claim.status.as_ref();
    let allocation = status.and_then(|status| status.allocation.as_ref());
    let devices = allocation.and_then(|allocation| allocation.devices.as_ref());
    let results = devices.and_then(|devices| devices.results.as_ref());
    results
        .into_iter()
        .flatten()
        .filter(|result| result.admin_access != Some(true))
        .map(|result| {
            let key = PoolKey {
                driver: result.driver.as_str().into(),
                pool: result.pool.as_str().into(),
            };
            (key, result.device.clone())
        })
        .collect()
}

#[cfg(test)]
mod tests;
