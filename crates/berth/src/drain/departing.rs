//! The bindings that are leaving a drained cluster, and the reason for which each one has not left yet.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use berth_api::binding::clusters_evicted_from;
use berth_api::names::execution_namespace;
use berth_api::well_known::{
    CLUSTER_RESOURCE_BINDING_NAME, CONDITION_MIGRATING, EVICTED_FROM, RESOURCE_BINDING_NAME,
    RESOURCE_BINDING_NAMESPACE,
};
use berth_api::{Binding, BindingKey, Work, condition};
use berth_component_base::paged_list::all_pages;
use berth_controllers::suspension::is_suspended;
use berth_plan::control_plane_lists;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::Api;

use super::error::DrainError;

/// The bindings that are leaving, each with the reason for which it has not left yet.
pub(super) type Departing = BTreeMap<BindingKey, String>;

/// The bindings that are leaving, at one time.
#[derive(Debug)]
pub(super) struct Observation {
    pub(super) departing: Departing,
    /// Duration of the requests.
    pub(super) took: Duration,
}

/// Reads the bindings and Works of the control plane.
pub(super) async fn observe(client: &Client, cluster: &str) -> Result<Observation, DrainError> {
    let start = Instant::now();
    let namespace = execution_namespace(cluster);
    let works: Api<Work> = Api::namespaced(client.clone(), &namespace);
    // The Works are read first: a Work that disappears later is observed once more.
    let works = all_pages(|params| {
        let works = works.clone();
        async move { works.list_metadata(&params).await }
    });
    let works = works.await;
    let works = works.map_err(DrainError::refused(format!(
        "list the Works in {namespace}"
    )))?;
    let with_work: BTreeSet<BindingKey> = works
        .iter()
        .filter_map(|work| binding_of_work(&work.metadata))
        .collect();
    let bindings = control_plane_lists::bindings(client, None).await?;
    Ok(Observation {
        departing: departing(&bindings, &with_work, cluster),
        took: start.elapsed(),
    })
}

/// Returns the key of the binding to which a Work belongs.
fn binding_of_work(work: &ObjectMeta) -> Option<BindingKey> {
    let annotations = work.annotations.as_ref()?;
    if let Some(name) = annotations.get(CLUSTER_RESOURCE_BINDING_NAME) {
        return Some(BindingKey::new("", name));
    }
    let namespace = annotations.get(RESOURCE_BINDING_NAMESPACE)?;
    let name = annotations.get(RESOURCE_BINDING_NAME)?;
    Some(BindingKey::new(namespace, name))
}

/// Returns the bindings that were drained from a cluster and have not left it, and the dependencies that follow them.
/// `with_work` are the bindings with a Work in the cluster.
fn departing(bindings: &[Binding], with_work: &BTreeSet<BindingKey>, cluster: &str) -> Departing {
    let is_target = |binding: &Binding| binding.spec.clusters.iter().any(|t| t.name == cluster);
    let targets = bindings.iter().filter(|binding| is_target(binding));
    let staying: BTreeSet<&BindingKey> = targets.map(|binding| &binding.key).collect();
    let mut departing = Departing::new();
    for binding in bindings {
        if binding.deleting() || is_target(binding) {
            continue;
        }
        let mut drained = clusters_evicted_from(binding.annotation(EVICTED_FROM));
        let is_drained = drained.any(|name| name == cluster);
        let has_work = with_work.contains(&binding.key);
        if is_drained && (has_task(binding, cluster) || has_work)
            || has_work && follows(binding, &staying, cluster)
        {
            departing.insert(binding.key.clone(), reason(binding, cluster));
        }
    }
    departing
}

/// Reports whether a binding is a dependency whose copy leaves the cluster, because none of the bindings that require it
/// is placed there. `staying` are the bindings that are placed in the cluster. The list of clusters in `requiredBy` may be
/// outdated for a short time.
fn follows(binding: &Binding, staying: &BTreeSet<&BindingKey>, cluster: &str) -> bool {
    let spec = &binding.spec;
    let mut required_by = spec.required_by.iter().map(|parent| {
        let namespace = parent.namespace.as_deref().unwrap_or_default();
        BindingKey::new(namespace, &parent.name)
    });
    let is_dependency = spec.placement.is_none() || !spec.required_by.is_empty();
    is_dependency
        && !is_suspended(spec, cluster)
        && !required_by.any(|parent| staying.contains(&parent))
}

/// Reports whether a binding is being evicted from a cluster.
fn has_task(binding: &Binding, cluster: &str) -> bool {
    let mut tasks = binding.spec.graceful_eviction_tasks.iter();
    tasks.any(|task| task.from_cluster == cluster)
}

/// Returns the reason for which a binding has not left a cluster yet.
fn reason(binding: &Binding, cluster: &str) -> String {
    let conditions = &binding.status.conditions;
    if let Some(migrating) = condition::find(conditions, CONDITION_MIGRATING)
        && !migrating.message.is_empty()
    {
        return migrating.message.clone();
    }
    let unscheduled = condition::scheduled(conditions).filter(|found| found.status == "False");
    if let Some(unscheduled) = unscheduled {
        return format!("not scheduled: {}", unscheduled.message);
    }
    if has_task(binding, cluster) {
        "the new copies are not healthy yet".to_owned()
    } else {
        format!("the copy in {cluster} is being removed")
    }
}

#[cfg(test)]
mod tests {
    use berth_api::ResourceBinding;
    use berth_api::placement::Placement;
    use serde_json::{Value, json};

    use super::*;

    fn binding(annotation: &str, spec: &Value, status: &Value) -> Binding {
        let mut spec = spec.clone();
        spec["resource"] = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
        let object = json!({ "metadata": { "name": "web-deployment", "namespace": "shop",
            "annotations": { EVICTED_FROM: annotation } }, "spec": spec, "status": status });
        let object: ResourceBinding = serde_json::from_value(object).unwrap();
        object.into()
    }

    fn condition(kind: &str, status: &str, message: &str) -> Value {
        json!({ "conditions": [{ "type": kind, "status": status, "reason": "R", "message": message,
            "lastTransitionTime": "2026-05-01T10:00:00Z" }] })
    }

    #[test]
    fn a_drained_binding_leaves_until_neither_task_nor_work_is_left() {
        let task = json!({ "gracefulEvictionTasks": [
            { "fromCluster": "m1", "reason": "Drain", "producer": "berth-drain" }] });
        let none = json!({});
        let with_work = BTreeSet::from([BindingKey::new("shop", "web-deployment")]);
        let without_work = BTreeSet::new();
        for (about, annotation, spec, status, works, expected) in [
            (
                "a task",
                "m1",
                &task,
                none.clone(),
                &without_work,
                Some("the new copies are not healthy yet"),
            ),
            (
                "a Work",
                "m0,m1",
                &none,
                none.clone(),
                &with_work,
                Some("the copy in m1 is being removed"),
            ),
            ("neither", "m1", &none, none.clone(), &without_work, None),
            (
                "drained from another cluster",
                "m2",
                &task,
                none.clone(),
                &with_work,
                None,
            ),
            (
                "a target again",
                "m1",
                &json!({ "clusters": [{ "name": "m1" }] }),
                none.clone(),
                &with_work,
                None,
            ),
            (
                "migrating",
                "m1",
                &task,
                condition("Migrating", "True", "1 of 2 are ready"),
                &with_work,
                Some("1 of 2 are ready"),
            ),
            (
                "unscheduled",
                "m1",
                &task,
                condition("Scheduled", "False", "no cluster"),
                &with_work,
                Some("not scheduled: no cluster"),
            ),
            (
                "scheduled",
                "m1",
                &task,
                condition("Scheduled", "True", "done"),
                &with_work,
                Some("the new copies are not healthy yet"),
            ),
        ] {
            let mut binding = binding(annotation, spec, &status);
            binding.spec.placement = Some(Placement::default());
            let found = departing(&[binding], works, "m1");
            let found = found.values().next().map(String::as_str);
            assert_eq!(found, expected, "{about}");
        }
    }

    #[test]
    fn a_dependency_leaves_after_the_workloads_that_require_it() {
        let workload = |name: &str, cluster: &str| {
            let spec = json!({ "clusters": [{ "name": cluster }], "placement": {},
                "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name } });
            let object = json!({ "metadata": { "name": name, "namespace": "shop" }, "spec": spec });
            Binding::from(serde_json::from_value::<ResourceBinding>(object).unwrap())
        };
        let required_by = |names: &[&str]| -> Vec<Value> {
            let of = |name: &&str| json!({ "namespace": "shop", "name": name, "clusters": [{ "name": "m1" }] });
            names.iter().map(of).collect()
        };
        let workloads = [workload("moved", "m2"), workload("stays", "m1")];
        let key = BindingKey::new("shop", "web-deployment");
        let with_work = BTreeSet::from([key.clone()]);
        let removed = "the copy in m1 is being removed";
        for (about, spec, works, expected) in [
            (
                "the workload has moved",
                json!({ "requiredBy": required_by(&["moved"]) }),
                &with_work,
                Some(removed),
            ),
            (
                "no Work is left",
                json!({ "requiredBy": required_by(&["moved"]) }),
                &BTreeSet::new(),
                None,
            ),
            (
                "one of two workloads stays",
                json!({ "requiredBy": required_by(&["moved", "stays"]) }),
                &with_work,
                None,
            ),
            (
                "the workload was deleted",
                json!({ "requiredBy": required_by(&["deleted"]) }),
                &with_work,
                Some(removed),
            ),
            (
                "the workload is placed nowhere",
                json!({}),
                &with_work,
                Some(removed),
            ),
            (
                "a placement of its own in another cluster",
                json!({ "placement": {}, "clusters": [{ "name": "m2" }],
                    "requiredBy": required_by(&["moved"]) }),
                &with_work,
                Some(removed),
            ),
            (
                "no dependency",
                json!({ "placement": {}, "clusters": [{ "name": "m2" }] }),
                &with_work,
                None,
            ),
            (
                "a copy that the suspension keeps",
                json!({ "requiredBy": required_by(&["moved"]), "suspension": { "dispatching": true } }),
                &with_work,
                None,
            ),
        ] {
            let mut bindings = workloads.to_vec();
            bindings.push(binding("", &spec, &json!({})));
            let found = departing(&bindings, works, "m1");
            assert_eq!(found.get(&key).map(String::as_str), expected, "{about}");
            assert_eq!(found.len(), usize::from(expected.is_some()), "{about}");
        }
    }

    #[test]
    fn a_work_names_its_binding() {
        for (annotations, expected) in [
            (
                json!({ RESOURCE_BINDING_NAMESPACE: "n", RESOURCE_BINDING_NAME: "b" }),
                Some(BindingKey::new("n", "b")),
            ),
            (
                json!({ CLUSTER_RESOURCE_BINDING_NAME: "b" }),
                Some(BindingKey::new("", "b")),
            ),
            (json!({ RESOURCE_BINDING_NAME: "b" }), None),
        ] {
            let work: ObjectMeta =
                serde_json::from_value(json!({ "annotations": annotations })).unwrap();
            assert_eq!(binding_of_work(&work), expected, "{annotations}");
        }
    }
}
