//! Properties of the answers: they depend only on the objects that exist, and do not exceed a placement of single pods.

use std::collections::{BTreeMap, BTreeSet};

use berth_estimator::{ClusterState, Rules, Unmeasured};
use berth_estimator_protocol::wire::pb;
use proptest::prelude::*;
use serde_json::json;

use crate::objects::{claim, class, component, node, pod, replicas, slice, with_selector};

/// The extended resource of device classes.
const GPU: &str = "example.com/gpu";

/// A node of a test.
#[derive(Clone, Debug, PartialEq)]
struct TestNode {
    cpu: i64,
    pods: i64,
    zone: Option<String>,
    unschedulable: bool,
}

/// A pod of a test.
#[derive(Clone, Debug, PartialEq)]
struct TestPod {
    node: String,
    cpu: i64,
    phase: &'static str,
}

/// A slice of the pool of a node.
#[derive(Clone, Debug)]
struct TestSlice {
    node: String,
    generation: i64,
    slices: i64,
    devices: Vec<i64>,
}

/// A class of the devices from an index on.
#[derive(Clone, Debug)]
struct TestClass {
    first: i64,
    extended_resource: Option<&'static str>,
}

/// A claim of devices of a node.
#[derive(Clone, Debug)]
struct TestClaim {
    node: String,
    devices: Vec<i64>,
}

/// An event of the watches.
#[derive(Clone, Debug)]
enum Event {
    Node(String, Option<TestNode>),
    Pod(String, Option<TestPod>),
    Slice(String, Option<TestSlice>),
    Class(String, Option<TestClass>),
    Claim(String, Option<TestClaim>),
}

/// The objects that exist.
#[derive(Debug, Default)]
struct Objects {
    nodes: BTreeMap<String, TestNode>,
    pods: BTreeMap<String, TestPod>,
    slices: BTreeMap<String, TestSlice>,
    classes: BTreeMap<String, TestClass>,
    claims: BTreeMap<String, TestClaim>,
}

fn some_node() -> impl Strategy<Value = TestNode> {
    let zone = prop_oneof![Just(None), "[xy]".prop_map(Some)];
    (0_i64..6, 0_i64..5, zone, prop::bool::weighted(0.1)).prop_map(
        |(cpu, pods, zone, unschedulable)| TestNode {
            cpu,
            pods,
            zone,
            unschedulable,
        },
    )
}

fn some_pod() -> impl Strategy<Value = TestPod> {
    let phase = prop_oneof![4 => Just("Running"), 1 => Just("Failed")];
    (prop_oneof!["n[0-3]", Just(String::new())], 0_i64..3, phase)
        .prop_map(|(node, cpu, phase)| TestPod { node, cpu, phase })
}

fn some_slice() -> impl Strategy<Value = TestSlice> {
    let devices = prop::collection::vec(0_i64..4, 0..3);
    ("n[0-1]", 1_i64..3, 1_i64..3, devices).prop_map(|(node, generation, slices, devices)| {
        TestSlice {
            node,
            generation,
            slices,
            devices,
        }
    })
}

fn some_class() -> impl Strategy<Value = TestClass> {
    let extended_resource = prop::option::of(Just(GPU));
    (0_i64..3, extended_resource).prop_map(|(first, extended_resource)| TestClass {
        first,
        extended_resource,
    })
}

fn some_claim() -> impl Strategy<Value = TestClaim> {
    let devices = prop::collection::vec(0_i64..4, 0..3);
    ("n[0-1]", devices).prop_map(|(node, devices)| TestClaim { node, devices })
}

fn device_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        ("s[0-3]", prop::option::weighted(0.8, some_slice()))
            .prop_map(|(n, slice)| Event::Slice(n, slice)),
        ("c[0-1]", prop::option::weighted(0.8, some_class()))
            .prop_map(|(n, class)| Event::Class(n, class)),
        ("a[0-2]", prop::option::weighted(0.7, some_claim()))
            .prop_map(|(n, claim)| Event::Claim(n, claim)),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        ("n[0-3]", prop::option::weighted(0.8, some_node()))
            .prop_map(|(n, node)| Event::Node(n, node)),
        ("p[0-7]", prop::option::weighted(0.7, some_pod())).prop_map(|(n, pod)| Event::Pod(n, pod)),
    ]
}

impl TestNode {
    fn apply(&self, name: &str, state: &mut ClusterState) {
        let labels = self
            .zone
            .as_ref()
            .map(|zone| json!({"zone": zone}))
            .unwrap_or_default();
        let spec = json!({"unschedulable": self.unschedulable});
        let allocatable = json!({"cpu": self.cpu.to_string(), "pods": self.pods.to_string()});
        state
            .nodes
            .apply_node(&node(name, &labels, &spec, &allocatable));
    }
}

impl TestPod {
    fn apply(&self, name: &str, state: &mut ClusterState) {
        let requests = json!({"cpu": self.cpu.to_string()});
        state
            .nodes
            .apply_pod(&pod(name, &self.node, self.phase, &requests));
    }
}

impl TestSlice {
    fn apply(&self, name: &str, state: &mut ClusterState) {
        let slice = slice(
            name,
            &self.node,
            self.generation,
            self.slices,
            &self.devices,
        );
        state.devices.apply_slice(&slice);
    }
}

impl TestClass {
    fn apply(&self, name: &str, state: &mut ClusterState) {
        let class = class(name, self.first, self.extended_resource);
        state.devices.apply_class(&class);
    }
}

impl TestClaim {
    fn apply(&self, name: &str, state: &mut ClusterState) {
        let claim = claim(name, &self.node, &self.devices);
        state.devices.apply_claim(&claim);
    }
}

impl Objects {
    fn apply(&mut self, event: &Event) {
        match event.clone() {
            Event::Node(name, Some(node)) => drop(self.nodes.insert(name, node)),
            Event::Node(name, None) => drop(self.nodes.remove(&name)),
            Event::Pod(name, Some(pod)) => drop(self.pods.insert(name, pod)),
            Event::Pod(name, None) => drop(self.pods.remove(&name)),
            Event::Slice(name, Some(slice)) => drop(self.slices.insert(name, slice)),
            Event::Slice(name, None) => drop(self.slices.remove(&name)),
            Event::Class(name, Some(class)) => drop(self.classes.insert(name, class)),
            Event::Class(name, None) => drop(self.classes.remove(&name)),
            Event::Claim(name, Some(claim)) => drop(self.claims.insert(name, claim)),
            Event::Claim(name, None) => drop(self.claims.remove(&name)),
        }
    }

    /// Returns a state that has seen only these objects, the pods and claims first.
    fn state(&self) -> ClusterState {
        let mut state = ClusterState::default();
        self.pods
            .iter()
            .for_each(|(name, pod)| pod.apply(name, &mut state));
        self.nodes
            .iter()
            .for_each(|(name, node)| node.apply(name, &mut state));
        let claims = self.claims.iter();
        claims.for_each(|(name, claim)| claim.apply(name, &mut state));
        let slices = self.slices.iter();
        slices.for_each(|(name, slice)| slice.apply(name, &mut state));
        let classes = self.classes.iter();
        classes.for_each(|(name, class)| class.apply(name, &mut state));
        state
    }

    /// Returns the free cpu and pods of the schedulable nodes in a zone, or of all schedulable nodes.
    fn free(&self, zone: Option<&str>) -> Vec<(i64, i64)> {
        let nodes = self.nodes.iter().filter(|(_, node)| {
            !node.unschedulable && (zone.is_none() || node.zone.as_deref() == zone)
        });
        nodes
            .map(|(name, node)| {
                let pods = self
                    .pods
                    .values()
                    .filter(|it| it.node == *name && it.phase == "Running");
                let (cpu, count) = pods.fold((0, 0), |(cpu, count), it| (cpu + it.cpu, count + 1));
                ((node.cpu - cpu).max(0), (node.pods - count).max(0))
            })
            .collect()
    }
}

fn follow(state: &mut ClusterState, event: &Event) {
    match event {
        Event::Node(name, Some(node)) => node.apply(name, state),
        Event::Node(name, None) => state.nodes.remove_node(name),
        Event::Pod(name, Some(pod)) => pod.apply(name, state),
        Event::Pod(name, None) => state.nodes.remove_pod("default", name),
        Event::Slice(name, Some(slice)) => slice.apply(name, state),
        Event::Slice(name, None) => state.devices.remove_slice(name),
        Event::Class(name, Some(class)) => class.apply(name, state),
        Event::Class(name, None) => state.devices.remove_class(name),
        Event::Claim(name, Some(claim)) => claim.apply(name, state),
        Event::Claim(name, None) => state.devices.remove_claim("default", name),
    }
}

fn node_claim(zone: Option<&str>) -> pb::NodeClaim {
    zone.map(|zone| with_selector("zone", zone))
        .unwrap_or_default()
}

/// Returns the numbers of replicas with devices, by the name of the resource.
fn max_with_devices(state: &ClusterState) -> [i32; 3] {
    let names = [
        GPU,
        "deviceclass.resource.kubernetes.io/c0",
        "deviceclass.resource.kubernetes.io/c1",
    ];
    names.map(|resource| {
        let request = replicas(&[(resource, "1")], node_claim(None));
        state
            .max_replicas(&request, Rules::default(), &mut Unmeasured)
            .unwrap()
    })
}

/// Returns the number of free devices of a class on the nodes `n0` and `n1`, by the definition.
fn free_devices(objects: &Objects, class: &TestClass) -> usize {
    let of_node = |node: &str| {
        let slices = objects.slices.values().filter(|slice| slice.node == node);
        let newest = slices.clone().map(|slice| slice.generation).max();
        let current: Vec<&TestSlice> = slices
            .filter(|slice| Some(slice.generation) == newest)
            .collect();
        let known = i64::try_from(current.len()).unwrap();
        let published = || current.iter().flat_map(|slice| slice.devices.iter());
        let devices: BTreeSet<&i64> = published().collect();
        let is_complete = current.iter().all(|slice| slice.slices == known);
        if !is_complete || devices.len() != published().count() {
            return 0;
        }
        let claims = objects.claims.values().filter(|claim| claim.node == node);
        let taken: BTreeSet<&i64> = claims.flat_map(|claim| claim.devices.iter()).collect();
        let free = devices.difference(&taken);
        free.filter(|device| ***device >= class.first).count()
    };
    of_node("n0") + of_node("n1")
}

fn max_replicas(state: &ClusterState, cpu: i64, zone: Option<&str>) -> i32 {
    let request = replicas(&[("cpu", &cpu.to_string())], node_claim(zone));
    state
        .max_replicas(&request, Rules::default(), &mut Unmeasured)
        .unwrap()
}

fn max_sets(state: &ClusterState, components: &[(i64, i32)]) -> i32 {
    let component = |(cpu, replicas): &(i64, i32)| {
        component(
            &[("cpu", &cpu.to_string())],
            pb::NodeClaim::default(),
            *replicas,
        )
    };
    let request = pb::MaxAvailableComponentSetsRequest {
        components: components.iter().map(component).collect(),
        ..pb::MaxAvailableComponentSetsRequest::default()
    };
    state
        .max_component_sets(&request, Rules::default(), &mut Unmeasured)
        .unwrap()
}

/// Places pods one by one on any node with room until no further pod fits. Returns their number.
fn place_one_by_one(mut nodes: Vec<(i64, i64)>, cpu: i64) -> i32 {
    let mut placed = 0;
    while let Some(node) = nodes.iter_mut().find(|node| node.0 >= cpu && node.1 > 0) {
        node.0 -= cpu;
        node.1 -= 1;
        placed += 1;
    }
    placed
}

/// Reports whether all pods fit, by a search through all placements.
fn fit(nodes: &mut [(i64, i64)], pods: &[i64]) -> bool {
    let Some((cpu, rest)) = pods.split_first() else {
        return true;
    };
    for index in 0..nodes.len() {
        // Equal nodes lead to equal results.
        if nodes[index].0 < *cpu || nodes[index].1 == 0 || nodes[..index].contains(&nodes[index]) {
            continue;
        }
        nodes[index].0 -= cpu;
        nodes[index].1 -= 1;
        let all_fit = fit(nodes, rest);
        nodes[index].0 += cpu;
        nodes[index].1 += 1;
        if all_fit {
            return true;
        }
    }
    false
}

proptest! {
    #[test]
    fn a_state_depends_only_on_the_objects_that_exist(
        events in prop::collection::vec(prop_oneof![event(), device_event()], 0..60),
    ) {
        let (mut state, mut objects) = (ClusterState::default(), Objects::default());
        for event in &events {
            follow(&mut state, event);
            objects.apply(event);
        }
        let fresh = objects.state();
        prop_assert_eq!(state.nodes.count(), objects.nodes.len());
        for cpu in 0..3 {
            for zone in [None, Some("x"), Some("y")] {
                let expected = max_replicas(&fresh, cpu, zone);
                prop_assert_eq!(max_replicas(&state, cpu, zone), expected, "{} {:?}", cpu, zone);
            }
        }
        let components = [(2, 1), (1, 2)];
        prop_assert_eq!(max_sets(&state, &components), max_sets(&fresh, &components));
        prop_assert_eq!(max_with_devices(&state), max_with_devices(&fresh));
    }

    #[test]
    fn devices_are_free_until_they_are_allocated(events in prop::collection::vec(device_event(), 0..40)) {
        let (mut state, mut objects) = (ClusterState::default(), Objects::default());
        for name in ["n0", "n1"] {
            let node = TestNode { cpu: 0, pods: 100, zone: None, unschedulable: false };
            node.apply(name, &mut state);
        }
        for event in &events {
            follow(&mut state, event);
            objects.apply(event);
        }
        let [_, by_first, by_second] = max_with_devices(&state);
        for (name, counted) in [("c0", by_first), ("c1", by_second)] {
            let expected = objects.classes.get(name).map_or(0, |class| free_devices(&objects, class));
            prop_assert_eq!(usize::try_from(counted).unwrap(), expected, "{}", name);
        }
    }

    #[test]
    fn as_many_replicas_fit_as_can_be_placed_one_by_one(
        events in prop::collection::vec(event(), 0..40), cpu in 0_i64..3, zone in prop::option::of("[xy]"),
    ) {
        let mut objects = Objects::default();
        for event in &events {
            objects.apply(event);
        }
        let zone = zone.as_deref();
        let expected = place_one_by_one(objects.free(zone), cpu);
        prop_assert_eq!(max_replicas(&objects.state(), cpu, zone), expected);
    }

    #[test]
    fn no_more_sets_are_counted_than_any_placement_contains(
        nodes in prop::collection::btree_map("n[0-2]", some_node(), 0..4),
        components in prop::collection::vec((0_i64..4, 1_i32..3), 1..3),
    ) {
        let objects = Objects { nodes, ..Objects::default() };
        let sets = max_sets(&objects.state(), &components);
        let set = components.iter().flat_map(|(cpu, replicas)| (0..*replicas).map(|_| *cpu));
        let set: Vec<i64> = set.collect();
        let mut pods: Vec<i64> = (0..sets).flat_map(|_| set.clone()).collect();
        pods.sort_unstable_by(|a, b| b.cmp(a));
        prop_assert!(fit(&mut objects.free(None), &pods), "{} sets of {:?}", sets, set);
        if components.len() == 1 {
            // First fit is exact for equal pods.
            let placed = place_one_by_one(objects.free(None), components[0].0);
            prop_assert_eq!(sets, placed / components[0].1);
        }
    }
}
