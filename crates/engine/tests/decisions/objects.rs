//! Tests of the Cluster and binding objects that plugins can read.

use std::sync::Arc;

use berth_api::binding::{BindingSpec, BindingStatus};
use berth_api::{Binding, BindingKey, Cluster};
use berth_engine::{Aspect, Fleet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::fixtures::{binding, cluster, request};

fn read(value: &Value) -> Cluster {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn only_a_fleet_with_keeping_objects_stores_cluster_objects() {
    let mut object = cluster("m1", 10);
    object["metadata"]["annotations"] = json!({"carbon": "40"});
    object["metadata"]["resourceVersion"] = json!("1");
    object["metadata"]["managedFields"] = json!([{"manager": "kubectl"}]);
    let mut plain = Fleet::new();
    plain.apply(&read(&object));
    assert!(plain.snapshot().cluster(0).unwrap().object().is_none());

    let mut fleet = Fleet::new().keeping_objects();
    fleet.apply(&read(&object));
    let first = fleet.snapshot();
    let kept = first.cluster(0).unwrap().object().unwrap();
    assert_eq!(kept.metadata.managed_fields, None);
    assert_eq!(kept.metadata.annotations.as_ref().unwrap()["carbon"], "40");

    object["metadata"]["resourceVersion"] = json!("2");
    assert!(
        fleet.apply(&read(&object)).is_empty(),
        "a change of only the resourceVersion has no aspects"
    );
    object["metadata"]["annotations"] = json!({"carbon": "50"});
    assert!(
        plain.apply(&read(&object)).is_empty(),
        "a fleet without objects ignores a change of annotations"
    );
    assert_eq!(fleet.apply(&read(&object)).aspects(), [Aspect::Object]);
    let second = fleet.snapshot();
    let changed = second.cluster(0).unwrap().object().unwrap();
    assert_eq!(
        changed.metadata.annotations.as_ref().unwrap()["carbon"],
        "50"
    );
    assert_eq!(kept.metadata.annotations.as_ref().unwrap()["carbon"], "40");
    object["metadata"]["labels"] = json!({"tier": "low"});
    let aspects = fleet.apply(&read(&object));
    assert_eq!(aspects.aspects(), [Aspect::Labels, Aspect::Object]);
    let third = fleet.snapshot();
    assert!(third.with_label("tier", |value| value == "low").contains(0));
    assert!(
        !third
            .with_label("tier", |value| value == "high")
            .contains(0)
    );
    assert!(third.with_label("unknown", |_| true).is_empty());
}

#[test]
fn a_request_returns_the_binding_object_that_was_added() {
    let request = request(&binding(4, json!({})));
    assert!(request.object().is_none());
    let binding = Binding {
        key: BindingKey::new("shop", "web"),
        metadata: ObjectMeta {
            uid: Some("u".to_owned()),
            ..ObjectMeta::default()
        },
        spec: BindingSpec::default(),
        status: BindingStatus::default(),
    };
    let request = request.with_object(Arc::new(binding.clone()));
    assert_eq!(request.object(), Some(&binding));
}
