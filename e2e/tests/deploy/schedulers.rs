//! The rights of the ServiceAccounts of the schedulers and of the shadow scheduler: they need each granted right, and
//! no other right. The default scheduler and the second scheduler share one account.

use berth_api::binding::{BindingSpec, BindingStatus};
use berth_api::{Cluster, ClusterQueue, ClusterResourceBinding, ResourceBinding};
use berth_e2e::events::{self, Wanted};
use berth_e2e::{bare_control_plane, eventually, sample};
use berth_test_requirements::needs;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::component;
use crate::control_plane::ControlPlane;
use crate::rights;

/// Returns a ready member cluster.
fn member(name: &str) -> Cluster {
    sample::cluster_with_capacity(name, 100, 1000)
}

/// Returns a ResourceBinding or a ClusterResourceBinding of a Deployment.
fn binding<K: DeserializeOwned>(name: &str, scheduler: &str, replicas: i32) -> K {
    let mut binding = sample::raw_binding(
        name,
        json!({
            "metadata": { "labels": { "clusterpropagationpolicy.karmada.io/permanent-id": "p" } },
            "spec": { "schedulerName": scheduler, "replicas": replicas,
                "placement": sample::by_available_replicas() },
        }),
    );
    // The server sets the namespace of a namespaced binding.
    binding["metadata"]["namespace"] = Value::Null;
    serde_json::from_value(binding).unwrap()
}

/// Access to the fields that ResourceBindings and ClusterResourceBindings share.
trait AnyBinding:
    kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug
{
    fn spec(&self) -> &BindingSpec;
    fn status(&self) -> Option<&BindingStatus>;
}

impl AnyBinding for ResourceBinding {
    fn spec(&self) -> &BindingSpec {
        &self.spec
    }
    fn status(&self) -> Option<&BindingStatus> {
        self.status.as_ref()
    }
}

impl AnyBinding for ClusterResourceBinding {
    fn spec(&self) -> &BindingSpec {
        &self.spec
    }
    fn status(&self) -> Option<&BindingStatus> {
        self.status.as_ref()
    }
}

/// Waits until the scheduler has placed the current generation of a binding with this number of replicas.
async fn wait_until_placed<K: AnyBinding>(api: &Api<K>, name: &str, replicas: i32) {
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

async fn change<K: AnyBinding>(api: &Api<K>, name: &str, change: Value) {
    api.patch(name, &PatchParams::default(), &Patch::Merge(change))
        .await
        .unwrap();
}

/// Makes the scheduler use its rights on one kind of binding. Creates a binding, changes its replicas back and forth so
/// that an event repeats, and then changes the binding often, until a write of the scheduler conflicts and the
/// scheduler gets the binding.
async fn exercise<K: AnyBinding>(plane: &ControlPlane, api: &Api<K>, name: &str, scheduler: &str) {
    let made: K = binding(name, scheduler, 2);
    api.create(&PostParams::default(), &made).await.unwrap();
    wait_until_placed(api, name, 2).await;
    for replicas in [4, 2, 4] {
        change(api, name, json!({ "spec": { "replicas": replicas } })).await;
        wait_until_placed(api, name, replicas).await;
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
        let requests = plane.audit.requests();
        if requests
            .iter()
            .any(|request| request.verb == "get" && request.resource == *resource)
        {
            Ok(())
        } else {
            Err("no conflict yet")
        }
    })
    .await;
    change(api, name, json!({ "spec": { "replicas": 6 } })).await;
    wait_until_placed(api, name, 6).await;
}

/// Checks that the two schedulers together use each right of their account, and that the server forbids none of their
/// requests.
#[needs(apiserver, kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_schedulers_have_exactly_the_rights_that_they_need() {
    let plane = ControlPlane::start(&[]).await;
    plane.apply("deploy/scheduler/rbac.yaml");
    plane.apply("deploy/scheduler/default-scheduler.yaml");
    plane.apply("deploy/second-scheduler/my-scheduler.yaml");
    for name in ["member1", "member2"] {
        bare_control_plane::join(&plane.client, &member(name)).await;
    }
    let kubeconfig = plane.kubeconfig_of("berth-scheduler");
    let _default = component::start(&plane, "karmada-scheduler", &kubeconfig, &[]).await;
    // The second scheduler also connects to the estimators of the members, enforces quotas and queues, and reads scores of
    // clusters.
    let queues: Api<ClusterQueue> = Api::all(plane.client.clone());
    let queue = json!({ "metadata": { "name": "all" }, "spec": { "namespaceSelector": {} } });
    let queue = serde_json::from_value(queue).unwrap();
    queues.create(&PostParams::default(), &queue).await.unwrap();
    let more = [
        "--enable-scheduler-estimator",
        "--feature-gates=FederatedQuotaEnforcement=true,ClusterQueues=true",
        concat!(
            "--config=",
            env!("CARGO_MANIFEST_DIR"),
            "/../examples/cluster-scores/config.yaml"
        ),
    ];
    let _mine = component::start(&plane, "my-karmada-scheduler", &kubeconfig, &more).await;
    // Start standbys too, because only a standby watches the lease.
    let _default_standby = component::start(&plane, "karmada-scheduler", &kubeconfig, &[]).await;
    let _my_standby = component::start(&plane, "my-karmada-scheduler", &kubeconfig, &[]).await;

    let bindings: Api<ResourceBinding> = Api::default_namespaced(plane.client.clone());
    let everywhere: Api<ClusterResourceBinding> = Api::all(plane.client.clone());
    exercise(&plane, &bindings, "web", "default-scheduler").await;
    exercise(&plane, &everywhere, "web", "default-scheduler").await;
    let mine: ResourceBinding = binding("mine", "my-scheduler", 2);
    bindings
        .create(&PostParams::default(), &mine)
        .await
        .unwrap();
    wait_until_placed(&bindings, "mine", 2).await;
    let of_template = Wanted {
        kind: "Deployment",
        ..Wanted::default()
    };
    events::wait_for(&plane.client, "default", of_template).await;

    let rights = rights::granted_to(&plane.client, "berth-scheduler").await;
    assert!(rights.len() > 10, "{rights:?}");
    // Wait, because the schedulers renew their leases and update the counts of events with a delay.
    eventually("every right to be used", async || {
        rights::all_are_used(&rights, &plane.audit.requests())
    })
    .await;
    rights::assert_none_is_forbidden(&plane.audit.requests());
    rights::assert_all_name_their_component(&plane.audit.requests(), "berth-scheduler");
    println!("the schedulers used all of {} rights", rights.len());
}

/// Checks that the shadow scheduler uses each right of its account, and that the server forbids none of its requests.
#[needs(apiserver, kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shadow_has_exactly_the_rights_that_it_needs() {
    let plane = ControlPlane::start(&[]).await;
    plane.apply("deploy/scheduler/rbac.yaml");
    plane.apply("deploy/scheduler/default-scheduler.yaml");
    plane.apply("deploy/shadow/rbac.yaml");
    plane.apply("deploy/shadow/shadow.yaml");
    bare_control_plane::join(&plane.client, &member("member1")).await;
    let bindings: Api<ResourceBinding> = Api::default_namespaced(plane.client.clone());
    let kubeconfig = plane.kubeconfig_of("berth-shadow");
    let quotas = ["--feature-gates=FederatedQuotaEnforcement=true"];
    let shadow = component::start(&plane, "berth-shadow", &kubeconfig, &quotas).await;
    shadow.wait_for_log("caches are filled").await;
    let others = plane.kubeconfig_of("berth-scheduler");
    let _other = component::start(&plane, "karmada-scheduler", &others, &[]).await;
    let made: ResourceBinding = binding("web", "default-scheduler", 2);
    let parameters = PostParams::default();
    bindings.create(&parameters, &made).await.unwrap();
    wait_until_placed(&bindings, "web", 2).await;

    let of_shadow = || {
        let all = plane.audit.requests();
        let account = "system:serviceaccount:karmada-system:berth-shadow";
        all.into_iter()
            .filter(|request| request.user == account)
            .collect::<Vec<_>>()
    };
    let rights = rights::granted_to(&plane.client, "berth-shadow").await;
    assert_eq!(rights.len(), 8, "{rights:?}");
    eventually("every right to be used", async || {
        rights::all_are_used(&rights, &of_shadow())
    })
    .await;
    rights::assert_none_is_forbidden(&of_shadow());
}

/// Returns a ConfigMap with a scheduler configuration that has one profile. `filters` is the YAML of its filter
/// plugins.
fn profile(filters: &str) -> Value {
    let text = format!(
        "apiVersion: scheduler.config.berth/v1alpha1\nkind: SchedulerConfiguration\nprofiles:\n- plugins:\n    filter: {filters}\n"
    );
    json!({ "metadata": { "name": "berth-scheduler" }, "data": { "config.yaml": text } })
}

/// Checks that a scheduler with `--config-map` exits if it lacks the optional rights, and that it works with these
/// rights and uses each of them.
#[needs(apiserver, kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduler_reads_its_config_map_with_exactly_the_optional_rights() {
    let plane = ControlPlane::start(&[]).await;
    plane.apply("deploy/scheduler/rbac.yaml");
    plane.apply("deploy/scheduler/default-scheduler.yaml");
    plane.apply("deploy/second-scheduler/my-scheduler.yaml");
    bare_control_plane::join(&plane.client, &member("member1")).await;
    let maps: Api<ConfigMap> = Api::namespaced(plane.client.clone(), "karmada-system");
    let map: ConfigMap = serde_json::from_value(profile("{}")).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    let kubeconfig = plane.kubeconfig_of("berth-scheduler");
    let deployment = "my-karmada-scheduler";
    let more = ["--config-map=karmada-system/berth-scheduler"];

    // Without the right to read the ConfigMap, the scheduler exits. The last line of its log names the manifest that
    // grants the right.
    let mut scheduler = component::start(&plane, deployment, &kubeconfig, &more).await;
    let status = eventually("the exit of the scheduler", async || {
        scheduler.exit_status().ok_or("it still runs")
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

    plane.apply("deploy/scheduler/optional/config-map.yaml");
    let earlier_requests = plane.audit.requests().len();
    let _scheduler = component::start(&plane, deployment, &kubeconfig, &more).await;
    let bindings: Api<ResourceBinding> = Api::default_namespaced(plane.client.clone());
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
    wait_until_placed(&bindings, "anywhere", 2).await;
    let change = Patch::Merge(profile("{disabled: [{name: ClusterAffinity}]}"));
    maps.patch("berth-scheduler", &PatchParams::default(), &change)
        .await
        .unwrap();
    wait_until_placed(&bindings, "nowhere", 2).await;
    let reloaded = Wanted {
        component: "my-scheduler",
        reason: "ConfigurationReloaded",
        ..Wanted::default()
    };
    events::wait_for(&plane.client, "karmada-system", reloaded).await;
    let rights = rights::granted_by_role(&plane.client, "berth-scheduler-config-map").await;
    assert_eq!(rights.len(), 3, "{rights:?}");
    eventually("every right to be used", async || {
        rights::all_are_used(&rights, &plane.audit.requests())
    })
    .await;
    rights::assert_none_is_forbidden(&plane.audit.requests()[earlier_requests..]);
}
