//! Reload of the scheduler's configuration from a ConfigMap. A valid change takes effect at run time, and an invalid
//! change is refused.

use berth_e2e::events::{self, Wanted};
use berth_e2e::program::command;
use berth_e2e::scheduler_fixture::{four_clusters, get, placed_clusters, to_all_clusters};
use berth_e2e::{BareControlPlane, Program, eventually};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// Starts a scheduler process that reads the ConfigMap `config/profiles`.
fn start_scheduler(bare: &BareControlPlane) -> Program {
    let mut command = command(env!("CARGO_BIN_EXE_berth-program"));
    command
        .arg("scheduler")
        .arg(format!("--kubeconfig={}", bare.kubeconfig().display()))
        .args([
            "--config-map=config/profiles",
            "--leader-elect=false",
            "--health-probe-bind-address=127.0.0.1:0",
            "--metrics-bind-address=0",
        ]);
    Program::start(&mut command, &bare.folder().join("scheduler.log"))
}

/// Returns the configuration that the scheduler serves at `/configz`.
async fn configz(scheduler: &Program) -> Value {
    let address = scheduler.wait_for_log("serving health and metrics").await;
    let (_, port) = address.rsplit_once(':').unwrap();
    let text = get(port.trim().parse().unwrap(), "/configz").await;
    let configz: Value = serde_json::from_str(&text).unwrap();
    configz["scheduler.config.berth"].clone()
}

fn config_maps(bare: &BareControlPlane) -> Api<ConfigMap> {
    Api::namespaced(bare.client.clone(), "config")
}

/// Creates the ConfigMap and its namespace.
async fn create_config_map(bare: &BareControlPlane, text: &str) {
    let namespace: Namespace =
        serde_json::from_value(json!({ "metadata": { "name": "config" } })).unwrap();
    Api::all(bare.client.clone())
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    let object = json!({ "metadata": { "name": "profiles" }, "data": { "config.yaml": text } });
    config_maps(bare)
        .create(
            &PostParams::default(),
            &serde_json::from_value(object).unwrap(),
        )
        .await
        .unwrap();
}

/// Replaces the configuration in the ConfigMap.
async fn update_config_map(bare: &BareControlPlane, text: &str) {
    let patch = Patch::Merge(json!({ "data": { "config.yaml": text } }));
    config_maps(bare)
        .patch("profiles", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// Waits for an event about the ConfigMap with this source, type and reason, and with a message that contains `text`.
async fn wait_for_event(
    bare: &BareControlPlane,
    source: &str,
    event_type: &str,
    reason: &str,
    text: &str,
) {
    let wanted = Wanted {
        kind: "ConfigMap",
        name: "profiles",
        event_type,
        reason,
        component: source,
        text,
        ..Wanted::default()
    };
    events::wait_for(&bare.client, "config", wanted).await;
}

/// Returns the YAML of a configuration with one profile. `rest` is the YAML of further fields of the profile.
fn profile(name: &str, rest: &str) -> String {
    format!(
        "apiVersion: scheduler.config.berth/v1alpha1\nkind: SchedulerConfiguration\nprofiles:\n- schedulerName: {name}\n{rest}"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_valid_change_takes_effect_and_an_invalid_one_does_not() {
    let bare = four_clusters().await;
    create_config_map(&bare, &profile("before", "")).await;
    let program = start_scheduler(&bare);
    bare.bind(&to_all_clusters("first", "before")).await;
    bare.bind(&to_all_clusters("second", "after")).await;
    assert_eq!(placed_clusters(&bare, "first").await.len(), 4);
    assert!(
        program.log().contains("Using component config\n"),
        "{}",
        program.log()
    );
    let names = |configz: &Value| {
        let profiles = configz["profiles"].as_array().unwrap();
        let name = |profile: &Value| profile["schedulerName"].as_str().unwrap().to_owned();
        profiles.iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(names(&configz(&program).await), ["before"]);

    // Rename the profile to the scheduler name of the waiting binding. The scheduler must place this binding without a
    // restart.
    update_config_map(&bare, &profile("after", "")).await;
    wait_for_event(
        &bare,
        "after",
        "Normal",
        "ConfigurationReloaded",
        "profiles: after",
    )
    .await;
    assert_eq!(placed_clusters(&bare, "second").await.len(), 4);
    assert_eq!(names(&configz(&program).await), ["after"]);

    // The scheduler refuses a configuration with an unknown plugin, and the previous profile stays active.
    let broken = "  plugins:\n    filter:\n      enabled:\n      - name: Nonesuch\n";
    update_config_map(&bare, &profile("after", broken)).await;
    wait_for_event(
        &bare,
        "after",
        "Warning",
        "ConfigurationRefused",
        "ConfigMap config/profiles, config.yaml:8:9: profiles[0].plugins.filter.enabled[0].name: no plugin is named \"Nonesuch\"",
    )
    .await;
    bare.bind(&to_all_clusters("third", "after")).await;
    assert_eq!(placed_clusters(&bare, "third").await.len(), 4);
    assert_eq!(names(&configz(&program).await), ["after"]);

    // Write a valid configuration again. It disables the affinity filter, so the scheduler ignores the cluster affinity
    // of the next binding.
    let without = "  plugins:\n    filter:\n      disabled:\n      - name: ClusterAffinity\n";
    update_config_map(&bare, &profile("again", without)).await;
    wait_for_event(
        &bare,
        "again",
        "Normal",
        "ConfigurationReloaded",
        "profiles: again",
    )
    .await;
    let mut picky = to_all_clusters("fourth", "again");
    picky.spec.placement = Some(
        serde_json::from_value(json!({ "clusterAffinity": { "clusterNames": ["m1"] } })).unwrap(),
    );
    bare.bind(&picky).await;
    assert_eq!(placed_clusters(&bare, "fourth").await.len(), 4);
    drop(program);
    bare.stop().await;
}

/// Returns the YAML of a configuration whose profile `s` filters clusters with a CEL expression.
fn with_filter_expression(expression: &str) -> String {
    let plugin = format!(
        "  plugins:\n    multiPoint:\n      enabled:\n      - name: Expression\n  pluginConfig:\n  - name: Expression\n    args:\n      filter:\n      - expression: {expression}\n"
    );
    profile("s", &plugin)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_expression_takes_effect_and_an_invalid_one_does_not() {
    let bare = four_clusters().await;
    create_config_map(
        &bare,
        &with_filter_expression("cluster.metadata.name == 'm1'"),
    )
    .await;
    let program = start_scheduler(&bare);
    bare.bind(&to_all_clusters("first", "s")).await;
    assert_eq!(placed_clusters(&bare, "first").await, ["m1"]);

    update_config_map(
        &bare,
        &with_filter_expression("cluster.metadata.labels.number in ['2', '3']"),
    )
    .await;
    wait_for_event(&bare, "s", "Normal", "ConfigurationReloaded", "profiles: s").await;
    bare.bind(&to_all_clusters("second", "s")).await;
    assert_eq!(placed_clusters(&bare, "second").await, ["m2", "m3"]);

    update_config_map(
        &bare,
        &with_filter_expression("cluster.metdata.name == 'm4'"),
    )
    .await;
    wait_for_event(
        &bare,
        "s",
        "Warning",
        "ConfigurationRefused",
        "ConfigMap config/profiles, config.yaml:13:9: profiles[0].pluginConfig[0].args.filter[0].expression: plugin Expression: line 1, column 9: there is no field \"metdata\" here",
    )
    .await;
    bare.bind(&to_all_clusters("third", "s")).await;
    assert_eq!(placed_clusters(&bare, "third").await, ["m2", "m3"]);
    let configz = configz(&program).await.to_string();
    assert!(!configz.contains("metdata"), "{configz}");

    // Write a valid expression again. The event for this change only increases the count of the earlier event, so the
    // test checks the decisions.
    update_config_map(
        &bare,
        &with_filter_expression("cluster.metadata.name != 'm1'"),
    )
    .await;
    wait_for_event(&bare, "s", "Normal", "ConfigurationReloaded", "profiles: s").await;
    eventually("a decision by the new expression", async || {
        let name = format!("again-{}", uuid::Uuid::new_v4().simple());
        bare.bind(&to_all_clusters(&name, "s")).await;
        let clusters = placed_clusters(&bare, &name).await;
        if clusters == ["m2", "m3", "m4"] {
            Ok(())
        } else {
            Err(format!("{clusters:?}"))
        }
    })
    .await;
    drop(program);
    bare.stop().await;
}
