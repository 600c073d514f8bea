//! The deployment replicas syncer. It copies the number of replicas from the autoscalers in members to the template.
//!
//! It applies to Deployments whose policy divides replicas and whose label [`RETAIN_REPLICAS`] is `true`. With this
//! label, members keep their own replicas. Once the status of all members is collected, the syncer copies
//! `status.replicas`, the sum over the members, to `spec.replicas`. While a target cluster is not ready, its report may
//! be outdated, and the template stays. The decision is a pure function, [`followed_replicas`]. Each change of a template
//! or a binding, and a cluster that becomes ready, repeat the decision.

use std::collections::{HashMap, HashSet};

use berth_api::names::binding_name;
use berth_api::placement::ReplicaSchedulingType;
use berth_api::well_known::{CONDITION_MIGRATING, CONDITION_READY, RETAIN_REPLICAS};
use berth_api::{Cluster, ResourceBinding, condition};
use berth_apimachinery::api_error::has_code;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::monitor::Monitor;
use crate::reconciler::informer::WatchEvent;
use crate::reconciler::observe::{ObjectName, Observe, cluster_scoped};
use crate::reconciler::work_queue::{Priority, Timers, WorkQueue};
use crate::reconciler::{ControllerError, Inputs, Reconciler, Runtime, Workers};

/// The name of the controller's queue in metrics.
const QUEUE: &str = "deployment-replicas-syncer";
/// Maximum number of templates written at the same time.
const WORKERS: usize = 4;

/// A Deployment with the label [`RETAIN_REPLICAS`].
#[derive(Clone, Debug, PartialEq, Eq)]
struct Template {
    resource_version: String,
    replicas: Option<i64>,
    /// The sum of the replicas in all members.
    reported: i64,
}

impl Template {
    /// Reads a Deployment. Returns `None` if its label [`RETAIN_REPLICAS`] is not `true`.
    fn of(deployment: &DynamicObject) -> Option<Self> {
        let retains = deployment.labels().get(RETAIN_REPLICAS).map(String::as_str) == Some("true");
        let number = |path: &str| deployment.data.pointer(path).and_then(Value::as_i64);
        retains.then(|| Self {
            resource_version: deployment.resource_version().unwrap_or_default(),
            replicas: number("/spec/replicas"),
            reported: number("/status/replicas").unwrap_or_default(),
        })
    }
}

/// The state of the binding of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Division {
    replicas: i64,
    /// True if the scheduler has observed the current generation of the binding.
    scheduled: bool,
    /// The sum of the replicas in the members, or `None` if a target cluster reports no replicas.
    collected: Option<i64>,
    /// The names of the target clusters.
    clusters: Vec<String>,
}

impl Division {
    /// Reads a binding. Returns `None` if it does not belong to a Deployment whose replicas are divided.
    fn of(binding: &ResourceBinding) -> Option<Self> {
        let (spec, resource) = (&binding.spec, &binding.spec.resource);
        let placement = spec.placement.as_ref()?;
        let divided = placement.scheduling_type() == ReplicaSchedulingType::Divided;
        if !divided || resource.kind != "Deployment" || resource.api_version != "apps/v1" {
            return None;
        }
        let status = binding.status.clone().unwrap_or_default();
        let items = status.aggregated_status.iter().map(|item| {
            let replicas = item.status.as_ref()?.get("replicas")?.as_i64()?;
            // An autoscaler keeps at least one replica, so zero means that the status is not collected yet.
            (replicas > 0).then_some(replicas)
        });
        // While the workload migrates, old and new replicas run at the same time.
        let is_target = |name: &String| spec.clusters.iter().any(|target| target.name == *name);
        let complete = status.aggregated_status.len() == spec.clusters.len()
            && status
                .aggregated_status
                .iter()
                .all(|item| is_target(&item.cluster_name))
            && !condition::is_true(&status.conditions, CONDITION_MIGRATING);
        Some(Self {
            replicas: i64::from(spec.replicas),
            scheduled: status.scheduler_observed_generation == binding.metadata.generation,
            collected: items.sum::<Option<i64>>().filter(|_| complete),
            clusters: spec
                .clusters
                .iter()
                .map(|cluster| cluster.name.clone())
                .collect(),
        })
    }
}

/// Returns the number of replicas to write to the template, or `None` if the template must not be changed.
///
/// An edit of the template reaches the binding first, then the scheduler, and then the members. Until the members have
/// reported their status after the edit, the reported replicas are outdated and must not be written. So are those of a
/// cluster that is not in `ready`.
fn followed_replicas(
    template: &Template,
    division: &Division,
    ready: &HashSet<String>,
) -> Option<i64> {
    let replicas = template.replicas?;
    let settled = division.replicas == replicas
        && division.scheduled
        && division.collected == Some(template.reported)
        && division.clusters.iter().all(|name| ready.contains(name));
    (settled && replicas != template.reported).then_some(template.reported)
}

/// Runs the controller until the token is cancelled.
///
/// # Errors
/// When one of its tasks panics.
pub async fn run(
    client: Client,
    monitor: Monitor,
    shutdown: CancellationToken,
) -> Result<(), ControllerError> {
    let meter = monitor.queue(QUEUE);
    let mut runtime = Runtime::new(client.clone(), QUEUE, &monitor, &shutdown);
    for source in [Source::Clusters, Source::Deployments, Source::Bindings] {
        let inputs = runtime.inputs();
        inputs.watch(&source.resource(), move |event| (source, event));
    }
    let syncer = Syncer {
        client,
        templates: HashMap::new(),
        divisions: HashMap::new(),
        ready: HashSet::new(),
        queue: WorkQueue::default().metered(meter),
    };
    runtime
        .run("deployment replicas syncer", syncer, WORKERS)
        .await
}

/// A watched resource.
#[derive(Clone, Copy, Debug)]
enum Source {
    Clusters,
    Deployments,
    Bindings,
}

impl Source {
    fn resource(self) -> ApiResource {
        match self {
            Self::Clusters => ApiResource::erase::<Cluster>(&()),
            Self::Deployments => ApiResource::erase::<Deployment>(&()),
            Self::Bindings => ApiResource::erase::<ResourceBinding>(&()),
        }
    }
}

/// The namespace of a template and the name of its binding.
type Key = (String, String);

struct Syncer {
    client: Client,
    /// The templates with the label [`RETAIN_REPLICAS`], each with the name of the Deployment.
    templates: HashMap<Key, (String, Template)>,
    divisions: HashMap<Key, Division>,
    /// The names of the clusters whose condition Ready is true.
    ready: HashSet<String>,
    queue: WorkQueue<Key, ()>,
}

impl Reconciler for Syncer {
    type Event = (Source, WatchEvent);
    type Outcome = (Key, Result<(), kube::Error>);

    fn handle_event(&mut self, (source, event): Self::Event, _: &mut Inputs<Self::Event>) {
        self.observe(&source, event);
    }

    fn handle_outcome(&mut self, (key, result): Self::Outcome, _: &mut Inputs<Self::Event>) {
        match result {
            Err(error) if !has_code(&error, 404) => self.queue.retry(&key, (), &error),
            Ok(()) | Err(_) => self.queue.finish(&key),
        }
    }

    fn timers(&mut self) -> Option<&mut dyn Timers> {
        Some(&mut self.queue)
    }

    fn dispatch(&mut self, workers: &mut Workers<Self::Outcome>) {
        while workers.has_free() {
            let Some((key, ())) = self.queue.next() else {
                return;
            };
            let (template, division) = (self.templates.get(&key), self.divisions.get(&key));
            let write = template
                .zip(division)
                .and_then(|((name, template), division)| {
                    let replicas = followed_replicas(template, division, &self.ready)?;
                    Some((name.clone(), template.resource_version.clone(), replicas))
                });
            let Some((name, version, replicas)) = write else {
                self.queue.finish(&key);
                continue;
            };
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.client.clone(), &key.0, &Source::Deployments.resource());
            self.queue.start(key.clone());
            workers.start(async move {
                let patch = json!({ "metadata": { "resourceVersion": version },
                    "spec": { "replicas": replicas } });
                let params = PatchParams::default();
                let written = api.patch(&name, &params, &Patch::Merge(patch)).await;
                if written.is_ok() {
                    tracing::info!(
                        namespace = key.0,
                        name,
                        replicas,
                        "wrote the replicas of the members to the template"
                    );
                }
                (key, written.map(drop))
            });
        }
    }
}

impl Observe for Syncer {
    type Source = Source;

    fn applied(&mut self, source: &Source, object: DynamicObject) {
        let namespace = object.namespace().unwrap_or_default();
        let key = key(*source, &namespace, &object.name_any());
        match source {
            Source::Clusters => return self.handle_cluster(object),
            Source::Deployments => match Template::of(&object) {
                Some(template) => {
                    let named = (object.name_any(), template);
                    self.templates.insert(key.clone(), named);
                }
                None => drop(self.templates.remove(&key)),
            },
            Source::Bindings => {
                let binding = object.try_parse::<ResourceBinding>();
                match binding.ok().as_ref().and_then(Division::of) {
                    Some(division) => drop(self.divisions.insert(key.clone(), division)),
                    None => drop(self.divisions.remove(&key)),
                }
            }
        }
        if self.templates.contains_key(&key) && self.divisions.contains_key(&key) {
            self.queue.push(key, (), Priority::High);
        }
    }

    fn removed(&mut self, source: &Source, namespace: &str, name: &str) {
        let key = key(*source, namespace, name);
        match source {
            Source::Clusters => drop(self.ready.remove(name)),
            Source::Deployments => drop(self.templates.remove(&key)),
            Source::Bindings => drop(self.divisions.remove(&key)),
        }
    }

    fn names(&self, source: &Source) -> Vec<ObjectName> {
        match source {
            Source::Clusters => cluster_scoped(&self.ready),
            Source::Deployments => {
                let templates = self.templates.iter();
                let names = templates.map(|(key, (name, _))| (key.0.clone(), name.clone()));
                names.collect()
            }
            Source::Bindings => self.divisions.keys().cloned().collect(),
        }
    }
}

impl Syncer {
    fn handle_cluster(&mut self, object: DynamicObject) {
        let name = object.name_any();
        let cluster = object.try_parse::<Cluster>().ok();
        let status = cluster.as_ref().and_then(|cluster| cluster.status.as_ref());
        if !status.is_some_and(|status| condition::is_true(&status.conditions, CONDITION_READY)) {
            self.ready.remove(&name);
        } else if self.ready.insert(name.clone()) {
            let targets = self.divisions.iter().filter(|(key, division)| {
                self.templates.contains_key(*key) && division.clusters.contains(&name)
            });
            for (key, _) in targets {
                self.queue.push(key.clone(), (), Priority::High);
            }
        }
    }
}

fn key(source: Source, namespace: &str, name: &str) -> Key {
    let binding = match source {
        Source::Deployments => binding_name("Deployment", name),
        Source::Bindings | Source::Clusters => name.to_owned(),
    };
    (namespace.to_owned(), binding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(replicas: i64, reported: i64) -> Template {
        Template {
            resource_version: "1".to_owned(),
            replicas: Some(replicas),
            reported,
        }
    }

    fn ready(names: &[&str]) -> HashSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn followed(template: &Template, division: &Division) -> Option<i64> {
        followed_replicas(template, division, &ready(&["m1", "m2"]))
    }

    fn binding(change: impl FnOnce(&mut Value)) -> Option<Division> {
        let mut binding = json!({
            "metadata": { "name": "web-deployment", "namespace": "default", "generation": 3 },
            "spec": {
                "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                "replicas": 4,
                "clusters": [{ "name": "m1", "replicas": 2 }, { "name": "m2", "replicas": 2 }],
                "placement": { "replicaScheduling": { "replicaSchedulingType": "Divided" } },
            },
            "status": {
                "schedulerObservedGeneration": 3,
                "conditions": [],
                "aggregatedStatus": [
                    { "clusterName": "m1", "status": { "replicas": 3 } },
                    { "clusterName": "m2", "status": { "replicas": 2 } },
                ],
            },
        });
        change(&mut binding);
        Division::of(&serde_json::from_value(binding).unwrap())
    }

    #[test]
    fn the_template_follows_its_members() {
        let division = binding(|_| ()).unwrap();
        assert_eq!(followed(&template(4, 5), &division), Some(5));
        assert_eq!(followed(&template(4, 4), &division), None);
        let equal = Division {
            replicas: 5,
            ..division
        };
        assert_eq!(followed(&template(5, 5), &equal), None);
    }

    #[test]
    fn the_last_report_of_a_cluster_that_is_not_ready_is_not_followed() {
        let (template, division) = (template(4, 5), binding(|_| ()).unwrap());
        assert_eq!(
            followed_replicas(&template, &division, &ready(&["m1"])),
            None
        );
        assert_eq!(followed_replicas(&template, &division, &ready(&[])), None);
        let others = ready(&["m1", "m2", "m3"]);
        assert_eq!(followed_replicas(&template, &division, &others), Some(5));
    }

    #[test]
    fn edits_that_have_not_reached_the_members_are_kept() {
        for (case, change) in [
            ("binding", ("/spec/replicas", json!(6))),
            (
                "scheduler",
                ("/status/schedulerObservedGeneration", json!(2)),
            ),
            ("clusters", ("/spec/clusters", json!([{ "name": "m1" }]))),
            (
                "a former cluster",
                ("/status/aggregatedStatus/0/clusterName", json!("m0")),
            ),
            (
                "a migration",
                (
                    "/status/conditions",
                    json!([{ "type": "Migrating", "status": "True", "reason": "WaitingForReplicas", "message": "",
                        "lastTransitionTime": "2026-01-01T00:00:00Z" }]),
                ),
            ),
            (
                "empty status",
                ("/status/aggregatedStatus/1/status", json!(null)),
            ),
            (
                "no replicas",
                ("/status/aggregatedStatus/1/status/replicas", json!(0)),
            ),
            (
                "template",
                ("/status/aggregatedStatus/1/status/replicas", json!(3)),
            ),
        ] {
            let (path, value) = change;
            let division = binding(|binding| *binding.pointer_mut(path).unwrap() = value);
            assert_eq!(
                followed(&template(4, 5), &division.unwrap()),
                None,
                "{case}"
            );
        }
    }

    #[test]
    fn templates_do_not_follow_duplicated_replicas() {
        let kind = "/spec/placement/replicaScheduling/replicaSchedulingType";
        let set = |path: &'static str, value: Value| {
            binding(|binding| *binding.pointer_mut(path).unwrap() = value)
        };
        assert_eq!(set(kind, json!("Duplicated")), None);
        assert_eq!(set("/spec/placement", json!({})), None);
        assert_eq!(set("/spec/resource/kind", json!("StatefulSet")), None);
    }

    #[test]
    fn only_labelled_templates_follow_their_members() {
        let deployment = |value: &str| {
            let object = json!({ "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": { "name": "web", "resourceVersion": "1", "labels": { RETAIN_REPLICAS: value } },
                "spec": { "replicas": 4 }, "status": { "replicas": 5 } });
            Template::of(&serde_json::from_value(object).unwrap())
        };
        assert_eq!(deployment("true"), Some(template(4, 5)));
        assert_eq!(deployment("false"), None);
    }
}
