//! Benchmarks of operations by Lua scripts, and of the built-in rules for the same kind.

#![expect(clippy::panic, reason = "this is how a benchmark fails")]

use std::hint::black_box;

use berth_api::binding::AggregatedStatusItem;
use berth_interpreter::Interpreter;
use criterion::{Criterion, criterion_group, criterion_main};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

const HEALTH: &str = "
function InterpretHealth(observedObj)
  if observedObj.status.observedGeneration ~= observedObj.metadata.generation then
    return false
  end
  if observedObj.spec.replicas ~= nil and observedObj.status.updatedReplicas < observedObj.spec.replicas then
    return false
  end
  return observedObj.status.availableReplicas >= observedObj.status.updatedReplicas
end";

const AGGREGATION: &str = "
function AggregateStatus(desiredObj, statusItems)
  if desiredObj.status == nil then
    desiredObj.status = {}
  end
  local fields = { 'replicas', 'updatedReplicas', 'readyReplicas', 'availableReplicas', 'expectedUpdatedReplicas' }
  local sums = {}
  for i = 1, #statusItems do
    local status = statusItems[i].status
    if status ~= nil then
      for _, field in ipairs(fields) do
        sums[field] = (sums[field] or 0) + (status[field] or 0)
      end
      desiredObj.status.updateRevision = status.updateRevision
      desiredObj.status.labelSelector = status.labelSelector
    end
  end
  for _, field in ipairs(fields) do
    desiredObj.status[field] = sums[field]
  end
  desiredObj.status.observedGeneration = desiredObj.metadata.generation
  return desiredObj
end";

const API_VERSION: &str = "apps.kruise.io/v1alpha1";
const KIND: &str = "CloneSet";

fn clone_set() -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": KIND,
        "metadata": {"name": "web", "namespace": "shop", "generation": 4, "labels": {"app": "web"}},
        "spec": {
            "replicas": 9, "selector": {"matchLabels": {"app": "web"}},
            "updateStrategy": {"type": "InPlaceIfPossible", "maxUnavailable": "20%"},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx:1.27",
                    "ports": [{"containerPort": 80}], "env": [{"name": "MODE", "value": "fast"}],
                    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}]},
            },
        },
        "status": status(9),
    })
}

fn status(replicas: i32) -> Value {
    json!({
        "observedGeneration": 4, "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas,
        "availableReplicas": replicas, "expectedUpdatedReplicas": replicas, "labelSelector": "app=web",
        "currentRevision": "web-7d4b", "updateRevision": "web-7d4b", "collisionCount": 0,
    })
}

fn members() -> Vec<AggregatedStatusItem> {
    let member = |name: &str| AggregatedStatusItem {
        cluster_name: name.to_owned(),
        status: Some(status(3)),
        applied: Some(true),
        ..AggregatedStatusItem::default()
    };
    ["member1", "member2", "member3"].map(member).to_vec()
}

fn scripts() -> Interpreter {
    let customization = json!({
        "metadata": {"name": "clone-sets"},
        "spec": {
            "target": {"apiVersion": API_VERSION, "kind": KIND},
            "customizations": {
                "healthInterpretation": {"luaScript": HEALTH},
                "statusAggregation": {"luaScript": AGGREGATION},
            },
        },
    });
    match serde_json::from_value(customization) {
        Ok(customization) => Interpreter::with(vec![customization]),
        Err(error) => panic!("the customization does not parse: {error}"),
    }
}

fn operations(c: &mut Criterion) {
    let (object, items) = (clone_set(), members());
    let now = Time(Timestamp::UNIX_EPOCH);
    for (name, interpreter) in [("script", scripts()), ("built in", Interpreter::default())] {
        c.bench_function(&format!("health of a CloneSet, {name}"), |b| {
            b.iter(|| interpreter.is_healthy(black_box(&object)));
        });
        c.bench_function(&format!("status of a CloneSet in 3 members, {name}"), |b| {
            b.iter(|| interpreter.aggregate(black_box(&object), black_box(&items), &now));
        });
    }
}

criterion_group!(benches, operations);
criterion_main!(benches);
