//! The probes and metrics of `berth controllers`, and its flag `--controllers`.

use berth_api::Work;
use berth_api::well_known::RESOURCE_BINDING_PERMANENT_ID;
use berth_e2e::{Objects as _, Program, eventually};
use berth_test_requirements::needs;
use kube::api::{Api, ListParams};
use serde_json::json;

use crate::controllers::{Scene, config_map, policy, port_of};
use crate::http::{get, scrape};

/// Returns the value of a metric sample, or 0 if the sample does not exist.
fn value(text: &str, sample: &str) -> f64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(sample));
    let value = lines.next().and_then(|value| value.trim().parse().ok());
    value.unwrap_or_default()
}

/// The sample that is 1 on the leader and 0 on a standby.
const LEADING: &str = r#"leader_election_master_status{name="karmada-controller-manager"}"#;

#[needs(embedded)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_and_its_standby_serve_probes_and_metrics() {
    let scene = Scene::start().await;
    let leader = scene.start_controllers("leader", &[]);
    leader.wait_for_log("successfully acquired lease").await;
    let standby = scene.start_controllers("standby", &[]);
    for (controllers, leads) in [(&leader, 1.0), (&standby, 0.0)] {
        let port = port_of(controllers).await;
        for path in ["/healthz", "/livez", "/readyz"] {
            let (code, body) = get(port, path).await.unwrap();
            assert_eq!((code, body.as_str()), (200, "ok"), "{path}");
        }
        let text = eventually("the leadership", async || {
            let text = scrape(port).await.map_err(|error| error.to_string())?;
            let has_gauge = text.lines().any(|line| line.starts_with(LEADING));
            let is_right = (value(&text, LEADING) - leads).abs() < 0.1;
            if has_gauge && is_right {
                Ok(text)
            } else {
                Err(text)
            }
        })
        .await;
        assert!(text.contains("\nkarmada_build_info{"), "{text}");
        assert!(text.contains("\nrest_client_requests_total{"), "{text}");
    }
    drop((leader, standby));
    scene.stop().await;
}

/// Checks that the counters of the controllers increase when a template is created, changed and deleted.
#[needs(embedded)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_increase_when_a_template_is_propagated() {
    const CREATED: &str = r#"create_resource_to_cluster{result="success",apiversion="v1",kind="ConfigMap",member_cluster="member1",recreate="false"}"#;
    const UPDATED: &str = r#"update_resource_to_cluster{result="success",apiversion="v1",kind="ConfigMap",member_cluster="member1",operationResult="updated"}"#;
    const DELETED: &str = r#"delete_resource_from_cluster{result="success",apiversion="v1",kind="ConfigMap",member_cluster="member1"}"#;
    const BOUND: &str = r#"policy_apply_attempts_total{result="success"}"#;
    const SYNCED: &str = r#"binding_sync_work_duration_seconds_count{result="success"}"#;
    const APPLIED: &str = r#"work_sync_workload_duration_seconds_count{result="success"}"#;
    const READY: &str = r#"cluster_ready_state{member_cluster="member1"}"#;
    let scene = Scene::start().await;
    let controllers = scene.start_controllers("controllers", &["--leader-elect=false"]);
    let port = port_of(&controllers).await;
    let reaches = async |samples: &[(&str, f64)]| {
        eventually("the metrics", async || {
            let text = scrape(port).await.map_err(|error| error.to_string())?;
            let is_reached = |(sample, least): &(&str, f64)| value(&text, sample) >= *least;
            if samples.iter().all(is_reached) {
                Ok(())
            } else {
                Err(text)
            }
        })
        .await;
    };
    reaches(&[(READY, 1.0)]).await;
    let map = config_map("settings");
    scene
        .create_all(&[map.clone(), policy("p", json!({}))])
        .await;
    scene.wait_for_member(&map, true).await;
    reaches(&[(CREATED, 1.0), (BOUND, 1.0), (SYNCED, 1.0), (APPLIED, 2.0)]).await;
    scene.edit(&map, json!({ "data": { "a": "2" } })).await;
    reaches(&[(UPDATED, 1.0)]).await;
    scene.delete(&map).await;
    scene.wait_for_member(&map, false).await;
    reaches(&[
        (DELETED, 1.0),
        (r#"workqueue_adds_total{controller="resource detector",name="resource detector"}"#, 2.0),
        (r#"workqueue_adds_total{controller="binding-controller",name="binding-controller"}"#, 2.0),
        (r#"workqueue_adds_total{controller="execution-controller",name="execution-controller"}"#, 2.0),
    ])
    .await;
    drop(controllers);
    scene.stop().await;
}

/// Checks that the gauge of the bindings by health follows workloads that break, recover and disappear, bindings that no
/// scheduler places, and a restart.
#[needs(embedded)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bindings_are_counted_by_their_health() {
    let scene = Scene::start().await;
    let arguments = ["--leader-elect=false"];
    let controllers = scene.start_controllers("controllers", &arguments);
    let counts = async |controllers: &Program, expected: [(&str, u32); 3]| {
        let port = port_of(controllers).await;
        let expected = expected
            .map(|(health, count)| format!("berth_bindings{{health=\"{health}\"}} {count}"));
        eventually("the numbers of bindings", async || {
            let text = scrape(port).await.map_err(|error| error.to_string())?;
            let is_there = |sample: &String| text.lines().any(|line| line == sample);
            if expected.iter().all(is_there) {
                Ok(())
            } else {
                Err(text)
            }
        })
        .await;
    };
    let none = [("broken", 0), ("stuck", 0), ("well", 0)];
    counts(&controllers, none).await;
    let web = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": "default",
            "annotations": { "simulation.berth/fails": "pull" } },
        "spec": { "replicas": 1, "selector": { "matchLabels": { "app": "web" } }, "template": {
            "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "web", "image": "nginx:1" }] } } },
    });
    let deployments = json!({ "apiVersion": "apps/v1", "kind": "Deployment" });
    let placement = json!({ "clusterAffinity": { "clusterNames": ["nowhere"] } });
    let first = json!({ "resourceSelectors": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": "first" }] });
    let nowhere = json!({ "placement": placement });
    scene
        .create_all(&[
            policy("deployments", json!({ "resourceSelectors": [deployments] })),
            policy("first", first),
            policy("others", nowhere),
            web.clone(),
            config_map("first"),
            config_map("other"),
        ])
        .await;
    counts(&controllers, [("broken", 1), ("stuck", 1), ("well", 1)]).await;
    drop(controllers);
    let controllers = scene.start_controllers("restarted", &arguments);
    counts(&controllers, [("broken", 1), ("stuck", 1), ("well", 1)]).await;
    let recovered = json!({ "metadata": { "annotations": { "simulation.berth/fails": null } } });
    scene.edit(&web, recovered).await;
    counts(&controllers, [("broken", 0), ("stuck", 1), ("well", 2)]).await;
    for object in [&web, &config_map("first"), &config_map("other")] {
        scene.delete(object).await;
    }
    counts(&controllers, none).await;
    drop(controllers);
    scene.stop().await;
}

/// Checks that `--controllers` disables a controller, warns about a name without effect, and refuses an unknown name.
#[needs(embedded)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_selected_controllers_run() {
    const EXECUTION: &str = "workqueue_adds_total{controller=\"execution-controller\"";
    let scene = Scene::start().await;
    let selected = ["--leader-elect=false", "--controllers=*,-execution,-remedy"];
    let controllers = scene.start_controllers("selected", &selected);
    controllers
        .wait_for_log("--controllers: remedy has no effect")
        .await;
    let port = port_of(&controllers).await;
    let map = config_map("settings");
    scene
        .create_all(&[map.clone(), policy("p", json!({}))])
        .await;
    let works: Api<Work> = Api::namespaced(scene.client().clone(), "karmada-es-member1");
    let of_bindings = ListParams::default().labels(RESOURCE_BINDING_PERMANENT_ID);
    eventually("the Work", async || match works.list(&of_bindings).await {
        Ok(list) if !list.items.is_empty() => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let text = scrape(port).await.unwrap();
    assert!(!text.contains(EXECUTION), "{text}");
    drop(controllers);
    let all = scene.start_controllers("all", &["--leader-elect=false"]);
    scene.wait_for_member(&map, true).await;
    drop(all);
    let unknown = scene.start_controllers("unknown", &["--controllers=nothing"]);
    unknown
        .wait_for_log("there is no controller \"nothing\"")
        .await;
    drop(unknown);
    scene.stop().await;
}
