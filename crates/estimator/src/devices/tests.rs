use serde_json::{Value, json};

use super::*;

const GPU: &str = "deviceclass.resource.kubernetes.io/gpu";

fn device(name: &str, model: &str) -> Value {
    json!({"name": name, "attributes": {"model": {"string": model}}})
}

/// Returns a slice of a pool with the name of the node.
fn slice(name: &str, node: &str, generation: (i64, i64), devices: &Value) -> ResourceSlice {
    let (generation, slices) = generation;
    of_spec(
        name,
        &json!({
            "driver": "gpu.example.com", "nodeName": node, "devices": devices,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": slices},
        }),
    )
}

fn of_spec(name: &str, spec: &Value) -> ResourceSlice {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

fn class(name: &str, selectors: &[&str]) -> DeviceClass {
    let selectors = selectors
        .iter()
        .map(|it| json!({"cel": {"expression": it}}));
    let spec = json!({"selectors": selectors.collect::<Vec<_>>()});
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

fn claim(name: &str, results: &Value) -> ResourceClaim {
    serde_json::from_value(json!({
        "metadata": {"namespace": "default", "name": name},
        "spec": {},
        "status": {"allocation": {"devices": {"results": results}}},
    }))
    .unwrap()
}

fn result(node: &str, device: &str) -> Value {
    json!({"request": "r", "driver": "gpu.example.com", "pool": node, "device": device})
}

/// Returns the numbers of free devices by node.
fn free(devices: &Devices, resource: &str) -> Option<Vec<(String, i64)>> {
    let free = devices.free(resource)?.iter();
    let mut free: Vec<_> = free
        .map(|(node, count)| (node.to_string(), *count))
        .collect();
    free.sort();
    Some(free)
}

fn on(counts: &[(&str, i64)]) -> Vec<(String, i64)> {
    let counts = counts.iter();
    counts
        .map(|(node, count)| ((*node).to_owned(), *count))
        .collect()
}

/// Returns two nodes with three devices each, and a class of all devices.
fn two_nodes() -> Devices {
    let mut devices = Devices::default();
    devices.apply_class(&class("gpu", &["device.driver == 'gpu.example.com'"]));
    for node in ["n1", "n2"] {
        let models = json!([device("d0", "a"), device("d1", "a"), device("d2", "b")]);
        devices.apply_slice(&slice(node, node, (1, 1), &models));
    }
    devices
}

#[test]
fn selectors_have_the_semantics_of_kubernetes() {
    let spec = json!({
        "driver": "gpu.example.com", "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{
            "name": "d0",
            "attributes": {
                "model": {"string": "a100"},
                "index": {"int": 3},
                "healthy": {"bool": true},
                "version": {"version": "12.4.1"},
                "other.example.com/rack": {"string": "r7"},
                "links": {"strings": ["x", "y"]},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }],
    });
    let matching = Some(1);
    let (differing, failing) = (Some(0), Some(0));
    for (selectors, expected) in [
        (&[][..], matching),
        (&["device.driver == 'gpu.example.com'"], matching),
        (&["device.driver == 'nic.example.com'"], differing),
        // Attributes without a domain have that of the driver.
        (
            &["device.attributes['gpu.example.com'].model == 'a100'"],
            matching,
        ),
        (
            &[
                "device.attributes['gpu.example.com'].index > 2 && device.attributes['gpu.example.com'].healthy",
            ],
            matching,
        ),
        (
            &["device.attributes['other.example.com'].rack in ['r7', 'r8']"],
            matching,
        ),
        (
            &["device.attributes['gpu.example.com'].version.isGreaterThan(semver('12.0.0'))"],
            matching,
        ),
        (
            &["device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) >= 0"],
            matching,
        ),
        (
            &["device.capacity['gpu.example.com'].memory.isLessThan(quantity('40Gi'))"],
            differing,
        ),
        (
            &["cel.bind(gpu, device.attributes['gpu.example.com'], gpu.healthy && gpu.index == 3)"],
            matching,
        ),
        (
            &["'x' in device.attributes['gpu.example.com'].links"],
            matching,
        ),
        (&["!device.allowMultipleAllocations"], matching),
        // An unknown domain is an empty map.
        (
            &["'rack' in device.attributes['unknown.example.com']"],
            differing,
        ),
        // All selectors must match.
        (
            &[
                "device.attributes['gpu.example.com'].index == 3",
                "device.attributes['gpu.example.com'].index == 4",
            ],
            differing,
        ),
        (&["device.attributes['gpu.example.com'].none == 1"], failing),
        (&["device.attributes['gpu.example.com'].model"], failing),
        (&["device.unknown("], failing),
        (&["[1].all(x, x > 0) && other == 1"], failing),
    ] {
        let mut devices = Devices::default();
        devices.apply_slice(&of_spec("s", &spec));
        devices.apply_class(&class("gpu", selectors));
        let counted = devices.free(GPU).unwrap().get("n1").copied();
        assert_eq!(Some(counted.unwrap_or(0)), expected, "{selectors:?}");
    }
}

#[test]
fn the_work_of_a_selector_is_limited() {
    let many = "[0,1,2,3,4,5,6,7,8,9]";
    let loops = format!(
        "{many}.all(a, {many}.all(b, {many}.all(c, {many}.all(d, {many}.all(e, {many}.all(f, true))))))"
    );
    let mut devices = two_nodes();
    devices.apply_class(&class("gpu", &[&loops]));
    assert_eq!(free(&devices, GPU), Some(on(&[])));
}

#[test]
fn allocated_devices_are_not_free() {
    let mut devices = two_nodes();
    assert_eq!(free(&devices, GPU), Some(on(&[("n1", 3), ("n2", 3)])));
    devices.apply_claim(&claim(
        "a",
        &json!([result("n1", "d0"), result("n1", "d2")]),
    ));
    assert_eq!(free(&devices, GPU), Some(on(&[("n1", 1), ("n2", 3)])));
    devices.apply_claim(&claim("b", &json!([result("n1", "d1")])));
    assert_eq!(free(&devices, GPU), Some(on(&[("n2", 3)])));
    // The claim moves to another node.
    devices.apply_claim(&claim("a", &json!([result("n2", "d0")])));
    assert_eq!(free(&devices, GPU), Some(on(&[("n1", 2), ("n2", 2)])));
    devices.remove_claim("default", "b");
    devices.retain_claims(|_, name| name != "a");
    assert_eq!(free(&devices, GPU), Some(on(&[("n1", 3), ("n2", 3)])));
    assert!(devices.claims.is_empty());
}

#[test]
fn only_devices_that_a_claim_takes_as_a_whole_are_counted() {
    let shared = json!({"name": "d0", "allowMultipleAllocations": true});
    let taint = |effect: &str| json!({"name": "d0", "taints": [{"key": "k", "effect": effect}]});
    let counters = json!([{"counterSet": "s", "counters": {"slots": {"value": "1"}}}]);
    let of_node = json!({"nodeName": "n1"});
    let admin = json!([{"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "d0", "adminAccess": true}]);
    let share = json!([{"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "d0", "shareID": "u"}]);
    for (case, device, nodes, results, expected) in [
        ("plain", json!({"name": "d0"}), &of_node, json!([]), 1),
        (
            "admin access takes no device",
            json!({"name": "d0"}),
            &of_node,
            admin,
            1,
        ),
        (
            "a shared device counts once",
            shared.clone(),
            &of_node,
            json!([]),
            1,
        ),
        (
            "a shared device counts until its first share",
            shared,
            &of_node,
            share,
            0,
        ),
        ("a taint", taint("NoSchedule"), &of_node, json!([]), 0),
        ("another taint", taint("NoExecute"), &of_node, json!([]), 0),
        (
            "a taint without effect",
            taint("None"),
            &of_node,
            json!([]),
            1,
        ),
        (
            "a partition",
            json!({"name": "d0", "consumesCounters": counters}),
            &of_node,
            json!([]),
            0,
        ),
        (
            "all nodes",
            json!({"name": "d0"}),
            &json!({"allNodes": true}),
            json!([]),
            0,
        ),
        (
            "node of the device",
            json!({"name": "d0", "nodeName": "n1"}),
            &json!({"perDeviceNodeSelection": true}),
            json!([]),
            0,
        ),
    ] {
        let mut spec = json!({
            "driver": "gpu.example.com", "devices": [device],
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        });
        spec.as_object_mut()
            .unwrap()
            .extend(nodes.as_object().unwrap().clone());
        let mut devices = Devices::default();
        devices.apply_class(&class("gpu", &[]));
        devices.apply_slice(&of_spec("s", &spec));
        devices.apply_claim(&claim("a", &results));
        let counted = devices.free(GPU).unwrap().get("n1").copied();
        assert_eq!(counted.unwrap_or(0), expected, "{case}");
    }
}

#[test]
fn a_pool_counts_when_all_slices_of_its_newest_generation_are_known() {
    let one = |name: &str| json!([device(name, "a")]);
    for (slices, expected) in [
        (vec![("s1", (1, 1), "d0")], 1),
        (vec![("s1", (1, 2), "d0")], 0),
        (vec![("s1", (1, 2), "d0"), ("s2", (1, 2), "d1")], 2),
        // The slices of the next generation replace those of the first one.
        (vec![("s1", (1, 1), "d0"), ("s2", (2, 2), "d0")], 0),
        (
            vec![
                ("s1", (1, 1), "d0"),
                ("s2", (2, 2), "d0"),
                ("s3", (2, 2), "d1"),
            ],
            2,
        ),
        (vec![("s1", (1, 2), "d0"), ("s2", (1, 2), "d0")], 0),
    ] {
        let mut devices = Devices::default();
        devices.apply_class(&class("gpu", &[]));
        for (name, generation, device) in &slices {
            devices.apply_slice(&slice(name, "n1", *generation, &one(device)));
        }
        let counted = devices.free(GPU).unwrap().get("n1").copied();
        assert_eq!(counted.unwrap_or(0), expected, "{slices:?}");
        devices.retain_slices(|_| false);
        assert!(
            devices.pools.is_empty() && devices.pools_on.is_empty() && devices.pool_of.is_empty()
        );
    }
}

#[test]
fn a_failing_selector_makes_the_class_unavailable_on_the_node() {
    let mut devices = two_nodes();
    let with_index = json!([
        {"name": "d0", "attributes": {"index": {"int": 0}}},
        {"name": "d1", "attributes": {"index": {"int": 1}}},
    ]);
    devices.apply_slice(&slice("n2", "n2", (2, 1), &with_index));
    devices.apply_class(&class(
        "gpu",
        &["device.attributes['gpu.example.com'].index >= 0"],
    ));
    assert_eq!(free(&devices, GPU), Some(on(&[("n2", 2)])));
}

#[test]
fn a_class_has_a_name_of_its_own_and_its_extended_resource() {
    let named = |name: &str, created: &str, model: &str| -> DeviceClass {
        let selector = format!("device.attributes['gpu.example.com'].model == '{model}'");
        serde_json::from_value(json!({
            "metadata": {"name": name, "creationTimestamp": created},
            "spec": {
                "extendedResourceName": "example.com/gpu",
                "selectors": [{"cel": {"expression": selector}}],
            },
        }))
        .unwrap()
    };
    let mut devices = two_nodes();
    devices.remove_class("gpu");
    assert_eq!(free(&devices, GPU), None);
    let extended = |devices: &Devices| free(devices, "example.com/gpu");
    assert_eq!(extended(&devices), None);
    let two = Some(on(&[("n1", 2), ("n2", 2)]));
    let one = Some(on(&[("n1", 1), ("n2", 1)]));
    devices.apply_class(&named("m", "2026-01-01T00:00:00Z", "a"));
    assert_eq!(extended(&devices), two);
    assert_eq!(free(&devices, "deviceclass.resource.kubernetes.io/m"), two);
    // The newest class counts.
    devices.apply_class(&named("z", "2026-01-02T00:00:00Z", "b"));
    assert_eq!(extended(&devices), one);
    // Of classes with the same age, the first one by name counts.
    devices.apply_class(&named("b", "2026-01-02T00:00:00Z", "a"));
    assert_eq!(extended(&devices), two);
    devices.retain_classes(|name| name == "z");
    assert_eq!(extended(&devices), one);
    devices.apply_class(&class("z", &[]));
    assert_eq!(extended(&devices), None);
}
