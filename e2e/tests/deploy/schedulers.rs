//! The two schedulers, with one account.

use berth_api::binding::{BindingSpec, BindingStatus};
use berth_api::{Cluster, ClusterResourceBinding, ResourceBinding};
use berth_e2e::{bare, eventually};
use berth_test_requirements::needs;
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::component::Component;
use crate::place::Place;
use crate::rights;

fn member(name: &str) -> Cluster {
    let condition = |kind: &str| {
        json!({ "type": kind, "status": "True", "reason": "Ok", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z" })
    };
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": { "syncMode": "Push" },
        "status": {
            "apiEnablements": [
                { "groupVersion": "apps/v1",
                  "resources": [{ "name": "deployments", "kind": "Deployment" }] },
            ],
            "conditions": [condition("Ready"), condition("CompleteAPIEnablements")],
            "resourceSummary": {
                "allocatable": { "cpu": "100", "memory": "1000Gi", "pods": "1000" } },
        },
    }))
    .unwrap()
}

/// A binding of either kind for a Deployment, with so many replicas.
fn binding<K: DeserializeOwned>(name: &str, scheduler: &str, replicas: i32) -> K {
    serde_json::from_value(json!({
        "metadata": { "name": name, "labels": {
            "propagationpolicy.karmada.io/permanent-id": "p",
            "clusterpropagationpolicy.karmada.io/permanent-id": "p" } },
        "spec": {
            "schedulerName": scheduler,
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment",
                "namespace": "default", "name": name, "uid": name },
            "replicas": replicas,
            "placement": { "replicaScheduling": {
                "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                "weightPreference": { "dynamicWeight": "AvailableReplicas" } } },
        },
    }))
    .unwrap()
}

/// What the two kinds of binding have in common.
trait Bound:
    kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug
{
    fn spec(&self) -> &BindingSpec;
    fn status(&self) -> Option<&BindingStatus>;
}

impl Bound for ResourceBinding {
    fn spec(&self) -> &BindingSpec {
        &self.spec
    }
    fn status(&self) -> Option<&BindingStatus> {
        self.status.as_ref()
    }
}

impl Bound for ClusterResourceBinding {
    fn spec(&self) -> &BindingSpec {
        &self.spec
    }
    fn status(&self) -> Option<&BindingStatus> {
        self.status.as_ref()
    }
}

async fn is_placed<K: Bound>(api: &Api<K>, name: &str, replicas: i32) {
    eventually(&format!("{replicas} replicas of {name}"), async || {
        let stored = api.get(name).await.map_err(|error| error.to_string())?;
        let placed: i32 = stored.spec().clusters.iter().map(|c| c.replicas).sum();
        let observed = stored
            .status()
            .and_then(|s| s.scheduler_observed_generation);
        if placed == replicas && observed == stored.meta().generation {
            Ok(())
        } else {
            Err(format!("{stored:?}"))
        }
    })
    .await;
}

async fn change<K: Bound>(api: &Api<K>, name: &str, change: Value) {
    api.patch(name, &PatchParams::default(), &Patch::Merge(change))
        .await
        .unwrap();
}

/// Places a binding, changes it there and back so that an event comes again, and then changes it under the
/// hands of the scheduler until that has met a conflict.
async fn exercise<K: Bound>(place: &Place, api: &Api<K>, name: &str, scheduler: &str) {
    let made: K = binding(name, scheduler, 2);
    api.create(&PostParams::default(), &made).await.unwrap();
    is_placed(api, name, 2).await;
    for replicas in [4, 2, 4] {
        change(api, name, json!({ "spec": { "replicas": replicas } })).await;
        is_placed(api, name, replicas).await;
    }
    let resource = K::plural(&());
    let mut round = 0;
    eventually("the scheduler to meet a conflict", async || {
        round += 1;
        let replicas = 2 + 2 * (round % 2);
        change(api, name, json!({ "spec": { "replicas": replicas } })).await;
        for touch in 0..5 {
            let label = json!({ "metadata": { "labels": { "touched": touch.to_string() } } });
            change(api, name, label).await;
        }
        let asked = place.audit.requests();
        if asked
            .iter()
            .any(|asked| asked.verb == "get" && asked.resource == *resource)
        {
            Ok(())
        } else {
            Err("it has not")
        }
    })
    .await;
    change(api, name, json!({ "spec": { "replicas": 6 } })).await;
    is_placed(api, name, 6).await;
}

#[needs(apiserver, kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_schedulers_have_the_rights_that_they_need_and_no_other() {
    let place = Place::start(&[]).await;
    place.apply("deploy/scheduler");
    for name in ["member1", "member2"] {
        bare::join(&place.client, &member(name)).await;
    }
    let kubeconfig = place.kubeconfig_of("berth-scheduler");
    let _default = Component::start(&place, "karmada-scheduler", &kubeconfig, &[]).await;
    // The second one also looks for the members' estimators.
    let more = ["--enable-scheduler-estimator"];
    let _mine = Component::start(&place, "my-karmada-scheduler", &kubeconfig, &more).await;

    let bindings: Api<ResourceBinding> = Api::default_namespaced(place.client.clone());
    let everywhere: Api<ClusterResourceBinding> = Api::all(place.client.clone());
    exercise(&place, &bindings, "web", "default-scheduler").await;
    exercise(&place, &everywhere, "web", "default-scheduler").await;
    let mine: ResourceBinding = binding("mine", "my-scheduler", 2);
    bindings
        .create(&PostParams::default(), &mine)
        .await
        .unwrap();
    is_placed(&bindings, "mine", 2).await;
    let events: Api<Event> = Api::default_namespaced(place.client.clone());
    eventually("the events of a binding and of its template", async || {
        let stored = events.list(&ListParams::default()).await.unwrap().items;
        let of = |kind: &str| {
            stored
                .iter()
                .any(|event| event.involved_object.kind.as_deref() == Some(kind))
        };
        if of("ResourceBinding") && of("Deployment") {
            Ok(())
        } else {
            Err(format!("{stored:?}"))
        }
    })
    .await;

    let rights = rights::given_to(&place.client, "berth-scheduler").await;
    assert!(rights.len() > 10, "{rights:?}");
    // The lease is renewed, and events are counted, a little later.
    eventually("every right to be used", async || {
        rights::all_are_used(&rights, &place.audit.requests())
    })
    .await;
    rights::none_is_forbidden(&place.audit.requests());
    println!("{} rights, each of them used, none missing", rights.len());
}

/// A ConfigMap with one profile, in which a filter is off or not.
fn profile(filters: &str) -> Value {
    let text = format!(
        "apiVersion: scheduler.config.berth/v1alpha1\nkind: SchedulerConfiguration\nprofiles:\n- plugins:\n    filter: {filters}\n"
    );
    json!({ "metadata": { "name": "berth-scheduler" }, "data": { "config.yaml": text } })
}

#[needs(apiserver, kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduler_reads_its_config_map_by_the_optional_rights_and_no_other() {
    let place = Place::start(&[]).await;
    place.apply("deploy/scheduler");
    bare::join(&place.client, &member("member1")).await;
    let maps: Api<ConfigMap> = Api::namespaced(place.client.clone(), "karmada-system");
    let map: ConfigMap = serde_json::from_value(profile("{}")).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    let kubeconfig = place.kubeconfig_of("berth-scheduler");
    let deployment = "my-karmada-scheduler";
    let more = ["--config-map=karmada-system/berth-scheduler"];

    // Without the right it ends, and says in one line what grants it.
    let mut scheduler = Component::start(&place, deployment, &kubeconfig, &more).await;
    let status = eventually("the end of the scheduler", async || {
        scheduler.ended().ok_or("it runs")
    })
    .await;
    let log = scheduler.log();
    let last = log.lines().last().unwrap_or_default();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(
        last.starts_with("error: --config-map karmada-system/berth-scheduler: "),
        "{last}"
    );
    assert!(
        last.ends_with("grant it as deploy/scheduler/optional/config-map.yaml does"),
        "{last}"
    );
    drop(scheduler);

    place.apply("deploy/scheduler/optional/config-map.yaml");
    let refused_before = place.audit.requests().len();
    let _scheduler = Component::start(&place, deployment, &kubeconfig, &more).await;
    let bindings: Api<ResourceBinding> = Api::default_namespaced(place.client.clone());
    let anywhere: ResourceBinding = binding("anywhere", "my-scheduler", 2);
    let mut nowhere: ResourceBinding = binding("nowhere", "my-scheduler", 2);
    if let Some(placement) = &mut nowhere.spec.placement {
        let affinity = json!({ "clusterNames": ["nonesuch"] });
        placement.cluster_affinity = serde_json::from_value(affinity).unwrap();
    }
    for made in [&anywhere, &nowhere] {
        let parameters = PostParams::default();
        bindings.create(&parameters, made).await.unwrap();
    }
    is_placed(&bindings, "anywhere", 2).await;
    let change = Patch::Merge(profile("{disabled: [{name: ClusterAffinity}]}"));
    maps.patch("berth-scheduler", &PatchParams::default(), &change)
        .await
        .unwrap();
    is_placed(&bindings, "nowhere", 2).await;
    let events: Api<Event> = Api::namespaced(place.client.clone(), "karmada-system");
    eventually("the event on the ConfigMap", async || {
        let stored = events.list(&ListParams::default()).await.unwrap().items;
        let told = stored.iter().any(|event| {
            let by = event
                .source
                .as_ref()
                .and_then(|source| source.component.as_deref());
            by == Some("my-scheduler") && event.reason.as_deref() == Some("ConfigurationReloaded")
        });
        if told {
            Ok(())
        } else {
            Err(format!("{stored:?}"))
        }
    })
    .await;
    let rights = rights::given_by_role(&place.client, "berth-scheduler-config-map").await;
    assert_eq!(rights.len(), 3, "{rights:?}");
    eventually("every right to be used", async || {
        rights::all_are_used(&rights, &place.audit.requests())
    })
    .await;
    rights::none_is_forbidden(&place.audit.requests()[refused_before..]);
}
