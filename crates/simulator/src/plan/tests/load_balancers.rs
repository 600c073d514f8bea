//! Addresses of load balancers and ingresses.

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::{Cluster, from};
use crate::world::Kind;

fn put(cluster: &mut Cluster, name: &str, spec: &Value) {
    let metadata = cluster.metadata(name);
    let object = json!({"metadata": metadata, "spec": spec});
    cluster.world.services.put(from(object));
}

/// Returns the addresses in the status of an object.
fn addresses<K>(objects: &Kind<K>, name: &str) -> Vec<String>
where
    K: kube::Resource + serde::Serialize,
{
    let found = objects.iter().find(|object| object.name_any() == name);
    let object = serde_json::to_value(found.unwrap()).unwrap();
    let points = object["status"]["loadBalancer"]["ingress"].as_array();
    let points = points.into_iter().flatten();
    points
        .map(|point| point["ip"].as_str().unwrap().to_owned())
        .collect()
}

fn retype(cluster: &mut Cluster, name: &str, kind: &str) {
    let service = cluster.world.services.iter().find(|s| s.name_any() == name);
    let mut service = service.unwrap().clone();
    service.spec.as_mut().unwrap().type_ = Some(kind.to_owned());
    cluster.world.services.put(service);
}

#[test]
fn a_load_balancer_has_an_address_as_long_as_it_is_one() {
    let mut cluster = Cluster::with_nodes(1, "8");
    put(&mut cluster, "web", &json!({"type": "LoadBalancer"}));
    put(&mut cluster, "inner", &json!({"type": "ClusterIP"}));
    let asked = json!({"type": "LoadBalancer", "loadBalancerIP": "192.0.2.7"});
    put(&mut cluster, "asked", &asked);
    cluster.settle();
    let first = addresses(&cluster.world.services, "web");
    assert_eq!(first.len(), 1);
    assert_eq!(addresses(&cluster.world.services, "asked"), ["192.0.2.7"]);
    assert!(addresses(&cluster.world.services, "inner").is_empty());
    retype(&mut cluster, "web", "NodePort");
    cluster.settle();
    assert!(addresses(&cluster.world.services, "web").is_empty());
    // The same object gets the same address again.
    retype(&mut cluster, "web", "LoadBalancer");
    cluster.settle();
    assert_eq!(addresses(&cluster.world.services, "web"), first);
}

#[test]
fn no_two_have_the_same_address() {
    let mut cluster = Cluster::with_nodes(1, "8");
    for number in 0..300 {
        let spec = json!({"type": "LoadBalancer"});
        put(&mut cluster, &format!("s{number}"), &spec);
        let metadata = cluster.metadata(&format!("i{number}"));
        let ingress = json!({"metadata": metadata, "spec": {}});
        cluster.world.ingresses.put(from(ingress));
    }
    cluster.settle();
    let mut seen = BTreeSet::new();
    for number in 0..300 {
        let service = addresses(&cluster.world.services, &format!("s{number}"));
        let ingress = addresses(&cluster.world.ingresses, &format!("i{number}"));
        assert!(service.len() == 1 && ingress.len() == 1);
        seen.extend(service);
        seen.extend(ingress);
    }
    assert_eq!(seen.len(), 600);
}
