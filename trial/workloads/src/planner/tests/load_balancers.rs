//! Tests of the addresses of Services of type LoadBalancer and of Ingresses.

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::{Cluster, from};
use crate::cache::ObjectCache;

fn put(cluster: &mut Cluster, name: &str, spec: &Value) {
    let metadata = cluster.metadata(name);
    let object = json!({"metadata": metadata, "spec": spec});
    cluster.cache.services.put(from(object));
}

/// Returns the addresses in the status of an object.
fn addresses<K>(objects: &ObjectCache<K>, name: &str) -> Vec<String>
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
    let service = cluster.cache.services.iter().find(|s| s.name_any() == name);
    let mut service = service.unwrap().clone();
    service.spec.as_mut().unwrap().type_ = Some(kind.to_owned());
    cluster.cache.services.put(service);
}

#[test]
fn load_balancer_address_is_removed_when_the_type_changes() {
    let mut cluster = Cluster::with_nodes(1, "8");
    put(&mut cluster, "web", &json!({"type": "LoadBalancer"}));
    put(&mut cluster, "inner", &json!({"type": "ClusterIP"}));
    let asked = json!({"type": "LoadBalancer", "loadBalancerIP": "192.0.2.7"});
    put(&mut cluster, "asked", &asked);
    cluster.plan_until_idle();
    let first = addresses(&cluster.cache.services, "web");
    assert_eq!(first.len(), 1);
    assert_eq!(addresses(&cluster.cache.services, "asked"), ["192.0.2.7"]);
    assert!(addresses(&cluster.cache.services, "inner").is_empty());
    retype(&mut cluster, "web", "NodePort");
    cluster.plan_until_idle();
    assert!(addresses(&cluster.cache.services, "web").is_empty());
    // The same object gets the same address again.
    retype(&mut cluster, "web", "LoadBalancer");
    cluster.plan_until_idle();
    assert_eq!(addresses(&cluster.cache.services, "web"), first);
}

#[test]
fn addresses_are_unique() {
    let mut cluster = Cluster::with_nodes(1, "8");
    for number in 0..300 {
        let spec = json!({"type": "LoadBalancer"});
        put(&mut cluster, &format!("s{number}"), &spec);
        let metadata = cluster.metadata(&format!("i{number}"));
        let ingress = json!({"metadata": metadata, "spec": {}});
        cluster.cache.ingresses.put(from(ingress));
    }
    cluster.plan_until_idle();
    let mut seen = BTreeSet::new();
    for number in 0..300 {
        let service = addresses(&cluster.cache.services, &format!("s{number}"));
        let ingress = addresses(&cluster.cache.ingresses, &format!("i{number}"));
        assert!(service.len() == 1 && ingress.len() == 1);
        seen.extend(service);
        seen.extend(ingress);
    }
    assert_eq!(seen.len(), 600);
}
