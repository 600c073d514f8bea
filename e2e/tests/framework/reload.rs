//! The configuration as a ConfigMap: a change takes effect while the scheduler runs, a broken one does not.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use berth_e2e::{Bare, eventually};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::scene::{bare, everywhere, get, placed};

/// A scheduler that reads the ConfigMap `config/profiles`; it is ended with the test.
struct Program {
    child: Child,
    log: PathBuf,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    fn start(bare: &Bare) -> Self {
        let log = bare.folder().join("scheduler.log");
        let file = File::create(&log).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_berth-program"))
            .arg("scheduler")
            .arg(format!("--kubeconfig={}", bare.kubeconfig().display()))
            .args([
                "--config-map=config/profiles",
                "--leader-elect=false",
                "--health-probe-bind-address=127.0.0.1:0",
                "--metrics-bind-address=0",
            ])
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Self { child, log }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// The configuration that it serves.
    async fn configz(&self) -> Value {
        let port = eventually("the address of the probes", async || {
            let log = self.log();
            let line = log
                .lines()
                .find(|line| line.contains("serving health and metrics"));
            line.and_then(|line| line.split_once("127.0.0.1:"))
                .map(|(_, rest)| {
                    rest.chars()
                        .take_while(char::is_ascii_digit)
                        .collect::<String>()
                })
                .ok_or_else(|| log.clone())
        })
        .await;
        let text = get(port.parse().unwrap(), "/configz").await;
        let configz: Value = serde_json::from_str(&text).unwrap();
        configz["scheduler.config.berth"].clone()
    }
}

fn config_maps(bare: &Bare) -> Api<ConfigMap> {
    Api::namespaced(bare.client.clone(), "config")
}

/// Creates the ConfigMap.
async fn create(bare: &Bare, text: &str) {
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

/// Writes the ConfigMap.
async fn write(bare: &Bare, text: &str) {
    let patch = Patch::Merge(json!({ "data": { "config.yaml": text } }));
    config_maps(bare)
        .patch("profiles", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// Waits for an event on the ConfigMap, in the name of a profile, whose message has these words.
async fn is_told(bare: &Bare, speaker: &str, note_type: &str, reason: &str, words: &str) {
    let events: Api<Event> = Api::namespaced(bare.client.clone(), "config");
    eventually(&format!("{reason}: {words}"), async || {
        let all = events.list(&ListParams::default()).await.unwrap();
        let told: Vec<_> = all
            .items
            .iter()
            .filter(|event| event.involved_object.kind.as_deref() == Some("ConfigMap"))
            .filter(|event| event.involved_object.name.as_deref() == Some("profiles"))
            .map(|event| {
                let source = event.source.as_ref();
                (
                    source.and_then(|source| source.component.as_deref()),
                    event.type_.as_deref(),
                    event.reason.as_deref(),
                    event.message.as_deref(),
                )
            })
            .collect();
        let found = told.iter().any(|(by, kind, why, message)| {
            *by == Some(speaker)
                && *kind == Some(note_type)
                && *why == Some(reason)
                && message.is_some_and(|message| message.contains(words))
        });
        if found {
            Ok(())
        } else {
            Err(format!("{told:?}"))
        }
    })
    .await;
}

/// A profile of this name; what it filters is commented in or out by the test.
fn profile(name: &str, rest: &str) -> String {
    format!(
        "apiVersion: scheduler.config.berth/v1alpha1\nkind: SchedulerConfiguration\nprofiles:\n- schedulerName: {name}\n{rest}"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_takes_effect_and_a_broken_one_does_not() {
    let bare = bare().await;
    create(&bare, &profile("before", "")).await;
    let program = Program::start(&bare);
    bare.bind(&everywhere("first", "before")).await;
    bare.bind(&everywhere("second", "after")).await;
    assert_eq!(placed(&bare, "first").await.len(), 4);
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
    assert_eq!(names(&program.configz().await), ["before"]);

    // Another name: the binding that nobody was in charge of is placed, without a restart.
    write(&bare, &profile("after", "")).await;
    is_told(
        &bare,
        "after",
        "Normal",
        "ConfigurationReloaded",
        "profiles: after",
    )
    .await;
    assert_eq!(placed(&bare, "second").await.len(), 4);
    assert_eq!(names(&program.configz().await), ["after"]);

    // A plugin that there is not: the profile of before stays in charge.
    let broken = "  plugins:\n    filter:\n      enabled:\n      - name: Nonesuch\n";
    write(&bare, &profile("after", broken)).await;
    is_told(
        &bare,
        "after",
        "Warning",
        "ConfigurationRefused",
        "ConfigMap config/profiles, config.yaml:8:9: profiles[0].plugins.filter.enabled[0].name: no plugin is named \"Nonesuch\"",
    )
    .await;
    bare.bind(&everywhere("third", "after")).await;
    assert_eq!(placed(&bare, "third").await.len(), 4);
    assert_eq!(names(&program.configz().await), ["after"]);

    // Right again, with other plugins: the filter by affinity is off.
    let without = "  plugins:\n    filter:\n      disabled:\n      - name: ClusterAffinity\n";
    write(&bare, &profile("again", without)).await;
    is_told(
        &bare,
        "again",
        "Normal",
        "ConfigurationReloaded",
        "profiles: again",
    )
    .await;
    let mut picky = everywhere("fourth", "again");
    picky.spec.placement = Some(
        serde_json::from_value(json!({ "clusterAffinity": { "clusterNames": ["m1"] } })).unwrap(),
    );
    bare.bind(&picky).await;
    assert_eq!(placed(&bare, "fourth").await.len(), 4);
    drop(program);
    bare.stop().await;
}

/// A profile `s` that places by an expression over clusters.
fn by_expression(expression: &str) -> String {
    let plugin = format!(
        "  plugins:\n    multiPoint:\n      enabled:\n      - name: Expression\n  pluginConfig:\n  - name: Expression\n    args:\n      filter:\n      - expression: {expression}\n"
    );
    profile("s", &plugin)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expression_that_changes_decides_the_next_binding_and_a_broken_one_does_not() {
    let bare = bare().await;
    create(&bare, &by_expression("cluster.metadata.name == 'm1'")).await;
    let program = Program::start(&bare);
    bare.bind(&everywhere("first", "s")).await;
    assert_eq!(placed(&bare, "first").await, ["m1"]);

    write(
        &bare,
        &by_expression("cluster.metadata.labels.number in ['2', '3']"),
    )
    .await;
    is_told(&bare, "s", "Normal", "ConfigurationReloaded", "profiles: s").await;
    bare.bind(&everywhere("second", "s")).await;
    assert_eq!(placed(&bare, "second").await, ["m2", "m3"]);

    write(&bare, &by_expression("cluster.metdata.name == 'm4'")).await;
    is_told(
        &bare,
        "s",
        "Warning",
        "ConfigurationRefused",
        "ConfigMap config/profiles, config.yaml:13:9: profiles[0].pluginConfig[0].args.filter[0].expression: plugin Expression: line 1, column 9: there is no field \"metdata\" here",
    )
    .await;
    bare.bind(&everywhere("third", "s")).await;
    assert_eq!(placed(&bare, "third").await, ["m2", "m3"]);
    let configz = program.configz().await.to_string();
    assert!(!configz.contains("metdata"), "{configz}");

    // Right again. The event is counted up, so it does not say when this one is in force.
    write(&bare, &by_expression("cluster.metadata.name != 'm1'")).await;
    is_told(&bare, "s", "Normal", "ConfigurationReloaded", "profiles: s").await;
    eventually("a decision by the new expression", async || {
        let name = format!("again-{}", uuid::Uuid::new_v4().simple());
        bare.bind(&everywhere(&name, "s")).await;
        let clusters = placed(&bare, &name).await;
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
