//! The devices of a pool, which a driver publishes in one or more ResourceSlices.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::resource::v1::{Device, ResourceSlice};

use super::attributes::Facts;
use super::class::Class;
use super::selectors::Verdict;

/// The driver and the name of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct PoolKey {
    pub(super) driver: Arc<str>,
    pub(super) pool: Arc<str>,
}

/// The slices of a pool by name, and the allocated devices.
#[derive(Debug, Default)]
pub(super) struct Pool {
    slices: BTreeMap<String, Slice>,
    /// The numbers of claims by device.
    allocated: HashMap<String, usize>,
}

/// Devices of a pool.
#[derive(Debug)]
pub(super) struct Slice {
    generation: i64,
    /// The number of slices of the pool in this generation.
    pool_size: i64,
    /// The node of the devices. `None` if the devices are not those of one node.
    pub(super) node: Option<Arc<str>>,
    driver: Arc<str>,
    devices: Vec<PoolDevice>,
    /// The verdicts about the devices, by class.
    verdicts: HashMap<String, Vec<Verdict>>,
}

#[derive(Debug)]
struct PoolDevice {
    name: String,
    counting: Counting,
    facts: Facts,
}

/// The eligibility of a device to count as free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counting {
    /// The device is free until it is allocated to a claim.
    Counted,
    /// The device is tainted, or shares counters with other devices, so that claims of other devices can take it.
    Uncounted,
}

impl PoolDevice {
    fn of(device: &Device) -> Self {
        let mut taints = device.taints.iter().flatten();
        let is_tainted =
            taints.any(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"));
        let is_partition = device.consumes_counters.iter().flatten().next().is_some();
        Self {
            name: device.name.clone(),
            counting: if is_tainted || is_partition {
                Counting::Uncounted
            } else {
                Counting::Counted
            },
            facts: Facts::of(device),
        }
    }
}

impl Slice {
    pub(super) fn of(slice: &ResourceSlice, classes: &BTreeMap<String, Class>) -> Self {
        let spec = &slice.spec;
        let devices = spec.devices.iter().flatten();
        let mut slice = Self {
            generation: spec.pool.generation,
            pool_size: spec.pool.resource_slice_count,
            node: spec.node_name.as_deref().map(Arc::from),
            driver: spec.driver.as_str().into(),
            devices: devices.map(PoolDevice::of).collect(),
            verdicts: HashMap::new(),
        };
        for (name, class) in classes {
            slice.apply_class(name, class);
        }
        slice
    }

    fn apply_class(&mut self, name: &str, class: &Class) {
        // Devices without a node are not counted.
        if self.node.is_some() {
            let facts = self.devices.iter().map(|device| &device.facts);
            let verdicts = class.selectors.verdicts(&self.driver, facts);
            self.verdicts.insert(name.to_owned(), verdicts);
        }
    }
}

impl Pool {
    pub(super) fn is_empty(&self) -> bool {
        self.slices.is_empty() && self.allocated.is_empty()
    }

    pub(super) fn insert(&mut self, name: &str, slice: Slice) {
        self.slices.insert(name.to_owned(), slice);
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.slices.remove(name);
    }

    /// Returns the nodes with devices of the pool.
    pub(super) fn nodes(&self) -> BTreeSet<Arc<str>> {
        let nodes = self.slices.values().filter_map(|slice| slice.node.clone());
        nodes.collect()
    }

    pub(super) fn apply_class(&mut self, name: &str, class: &Class) {
        for slice in self.slices.values_mut() {
            slice.apply_class(name, class);
        }
    }

    pub(super) fn remove_class(&mut self, name: &str) {
        for slice in self.slices.values_mut() {
            slice.verdicts.remove(name);
        }
    }

    /// Adds a claim to which a device is allocated.
    pub(super) fn allocate(&mut self, device: &str) {
        *self.allocated.entry(device.to_owned()).or_default() += 1;
    }

    /// Removes a claim to which a device is allocated.
    pub(super) fn release(&mut self, device: &str) {
        if let Some(claims) = self.allocated.get_mut(device) {
            *claims -= 1;
            if *claims == 0 {
                self.allocated.remove(device);
            }
        }
    }

    /// Returns the slices of the newest generation. Returns none while some of them are unknown, or if two devices have
    /// the same name: kube-scheduler does not allocate devices of such a pool.
    fn current(&self) -> Vec<&Slice> {
        let newest = self.slices.values().map(|slice| slice.generation).max();
        let current = self.slices.values();
        let current: Vec<&Slice> = current
            .filter(|slice| Some(slice.generation) == newest)
            .collect();
        let is_complete = current
            .iter()
            .all(|slice| usize::try_from(slice.pool_size) == Ok(current.len()));
        let mut names = BTreeSet::new();
        let mut devices = current.iter().flat_map(|slice| &slice.devices);
        if is_complete && devices.all(|device| names.insert(device.name.as_str())) {
            current
        } else {
            Vec::new()
        }
    }

    /// Adds the free devices of a node to the counts by class. A count becomes `None` if a selector fails.
    pub(super) fn add_free(&self, node: &str, counts: &mut BTreeMap<&str, Option<i64>>) {
        for slice in self.current() {
            if slice.node.as_deref() != Some(node) {
                continue;
            }
            for (class, count) in &mut *counts {
                let verdicts = slice.verdicts.get(*class).into_iter().flatten();
                for (device, verdict) in slice.devices.iter().zip(verdicts) {
                    let is_free = device.counting == Counting::Counted
                        && !self.allocated.contains_key(&device.name);
                    match verdict {
                        Verdict::Fails => *count = None,
                        Verdict::Matches if is_free => {
                            *count = count.map(|count| count + 1);
                        }
                        Verdict::Matches | Verdict::Differs => {}
                    }
                }
            }
        }
    }
}
