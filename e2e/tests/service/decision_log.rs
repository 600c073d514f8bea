//! Tests of the decision log of a scheduler, and of its replay with `berth replay`.

use std::path::Path;

use berth_e2e::{BareControlPlane, Program, eventually};
use berth_scheduler::decision_log::format::Entry;
use berth_scheduler::decision_log::reader::{Reader, files_of};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::assertions::is_settled;
use crate::objects::{binding, by_available_replicas, fleet, mixed, on_cluster};
use crate::process::{self, program, run};

/// Feature gates with which a decision depends on earlier decisions, even before the clusters report the replicas of
/// these decisions.
const GATES: &str = "--feature-gates=SchedulingOvercommitProtection=true,WorkloadAffinity=true";

/// A scheduler with a decision log, and its control plane.
struct Recorded {
    bare: BareControlPlane,
    scheduler: Program,
    log: String,
}

impl Recorded {
    async fn start() -> Self {
        let bare = BareControlPlane::start(&fleet(3)).await;
        let log = bare.folder().join("log").display().to_string();
        let scheduler = process::start(
            bare.folder(),
            &bare.kubeconfig(),
            &[
                "--leader-elect=false",
                "--health-probe-bind-address=0",
                "--metrics-bind-address=127.0.0.1:0",
                &format!("--decision-log={log}"),
                GATES,
            ],
        );
        Self {
            bare,
            scheduler,
            log,
        }
    }

    /// Waits until the log contains at least `wanted` decisions. Returns the number of cluster changes in the log.
    async fn wait_for_decisions(&self, wanted: usize) -> usize {
        eventually("the decisions in the log", async || {
            let files = files_of(&[self.log.clone().into()]).map_err(|error| error.to_string())?;
            let (mut decisions, mut changes) = (0, 0);
            for file in files {
                let mut reader = Reader::open(&file).map_err(|error| error.to_string())?;
                while let Some(entry) = reader.next_entry().map_err(|error| error.to_string())? {
                    decisions += usize::from(matches!(entry, Entry::Decision(_)));
                    changes += usize::from(matches!(entry, Entry::ClusterPatch(_)));
                }
            }
            if decisions >= wanted {
                Ok(changes)
            } else {
                Err(format!("{decisions} of {wanted}: {}", self.scheduler.log()))
            }
        })
        .await
    }

    /// Places ten bindings, changes a cluster, places two more bindings, and kills the scheduler. Returns the control
    /// plane and the path of the log.
    async fn place_and_kill(self) -> (BareControlPlane, String) {
        self.bare.bind_all(&mixed("web", 10)).await;
        let settled = async |count: usize| {
            eventually("all bindings to be placed", async || {
                let all = self.bare.all_bindings().await;
                let placed = all.iter().filter(|binding| is_settled(binding)).count();
                if placed == count {
                    Ok(())
                } else {
                    Err(format!("{placed} of {count}: {}", self.scheduler.log()))
                }
            })
            .await;
        };
        settled(10).await;
        let before = self.wait_for_decisions(10).await;
        let patch = json!({ "status": { "resourceSummary": { "allocatable": { "cpu": "7" } } } });
        let clusters = self.bare.clusters();
        clusters
            .patch_status("m3", &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
        for (name, placement) in [
            ("late0", by_available_replicas()),
            ("late1", on_cluster("m1")),
        ] {
            self.bare.bind(&binding(name, 90, placement)).await;
        }
        settled(12).await;
        let after = self.wait_for_decisions(12).await;
        assert!(after > before, "the change of m3 is missing");
        self.scheduler.signal("KILL");
        let mut scheduler = self.scheduler;
        assert!(!scheduler.wait_for_exit().await.success());
        (self.bare, self.log)
    }
}

/// Checks that the commands of `docs/replay.md` succeed with this log. The command that starts a scheduler is not run.
fn documented_commands_work(folder: &Path, log: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/replay.md");
    let page = std::fs::read_to_string(page).unwrap();
    let commands: Vec<&str> = page
        .split("```sh\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("```"))
        .flat_map(|(block, _)| block.lines())
        .collect();
    std::fs::rename(log, folder.join("decisions")).unwrap();
    let config = json!({
        "apiVersion": "scheduler.config.berth/v1alpha1", "kind": "SchedulerConfiguration",
    });
    write(folder, "new.yaml", &config.to_string());
    assert_eq!(commands.len(), 6, "{commands:?}");
    for command in commands {
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        if words[0] == "scheduler" {
            assert!(words.contains(&"--decision-log"), "{command}");
            continue;
        }
        let output = program("berth").args(&words).current_dir(folder).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{command}: {output:?}");
    }
}

/// Runs `berth replay`. Returns its report and its exit code.
fn replay(arguments: &[&str]) -> (Value, i32) {
    let output = run("berth", &[&["replay", "-o", "json"], arguments].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let report = serde_json::from_str(&text).unwrap_or_else(|error| {
        let errors = String::from_utf8_lossy(&output.stderr);
        panic!("{error}: {text}{errors}")
    });
    (report, output.status.code().unwrap())
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// A replay of the log repeats all decisions. With another configuration or another cluster list, the report contains
/// the differences.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_of_a_killed_scheduler_is_replayed() {
    let (bare, log) = Recorded::start().await.place_and_kill().await;

    let (report, code) = replay(&[&log]);
    let counts = &report["counts"];
    assert_eq!(
        (code, &counts["equal"]),
        (0, &counts["decisions"]),
        "{report}"
    );
    assert!(counts["decisions"].as_u64().unwrap() >= 12, "{report}");
    let notes = report["notes"].to_string();
    assert!(notes.contains("is incomplete"), "{notes}");

    // Without the plugin ClusterAffinity, the bindings for one cluster are placed in all clusters.
    let config = json!({
        "apiVersion": "scheduler.config.berth/v1alpha1", "kind": "SchedulerConfiguration",
        "profiles": [{ "plugins": { "multiPoint": { "disabled": [{ "name": "ClusterAffinity" }] } } }],
    });
    let config = write(bare.folder(), "new.json", &config.to_string());
    let (report, code) = replay(&[&log, "--config", &config]);
    let moved = report["counts"]["moved"].as_u64().unwrap();
    assert!(code == 1 && moved >= 4, "{report}");
    assert_eq!(report["differences"][0]["change"], "moved");
    let output = run(
        "berth",
        &["replay", &log, "--config", &config, "--limit-differences=1"],
    );
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    for expected in [
        &format!("{moved} moved"),
        "BINDING",
        "m1:",
        &format!("{} further differences", moved - 1),
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }

    // Extract one decision into a file of its own.
    let case = bare.folder().join("case.json").display().to_string();
    let arguments = [
        "replay",
        &log,
        "--extract=default/late0",
        "--extract-to",
        &case,
    ];
    let output = run("berth", &arguments);
    assert!(output.status.success(), "{output:?}");
    let (report, code) = replay(&[&case]);
    assert_eq!(
        (code, &report["counts"]["equal"]),
        (0, &json!(1)),
        "{report}"
    );
    let text = std::fs::read_to_string(&case).unwrap();
    assert!(text.contains(r#""assumed":{"m1""#), "{text}");

    // Replay the extracted decision without the cluster m2.
    let mut changed: Value = serde_json::from_str(&text).unwrap();
    let clusters = changed["clusters"].as_array_mut().unwrap();
    clusters.retain(|cluster| cluster["metadata"]["name"] != "m2");
    let changed = write(bare.folder(), "changed.json", &format!("{changed}\n"));
    let (report, code) = replay(&[&changed]);
    assert_eq!(
        (code, &report["counts"]["moved"]),
        (1, &json!(1)),
        "{report}"
    );
    let reasons = &report["differences"][0]["reasons"];
    assert_eq!(reasons, &json!(["m2: not in the fleet"]), "{report}");

    documented_commands_work(bare.folder(), &log);
    bare.stop().await;
}

/// A replay of the recorded cases in `data/decisions` repeats each recorded decision.
#[test]
fn a_replay_of_recorded_cases_repeats_their_decisions() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/decisions");
    let cases = std::fs::read_dir(folder).unwrap();
    let cases: Vec<String> = cases
        .map(|case| case.unwrap().path().display().to_string())
        .collect();
    assert!(!cases.is_empty());
    let arguments: Vec<&str> = cases.iter().map(String::as_str).collect();
    let (report, code) = replay(&arguments);
    assert_eq!(code, 0, "{report}");
    assert!(report["counts"]["equal"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(report["counts"]["notRepeated"], 0, "{report}");
}

#[test]
fn errors_of_a_replay_have_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().display().to_string();
    let broken = write(folder.path(), "broken.jsonl", "{\"decision\":1}\n");
    let missing = format!("{empty}/missing");
    for (arguments, expected) in [
        (vec![empty.as_str()], "contains no decisions-*.jsonl.gz"),
        (vec![&missing], "No such file or directory"),
        (vec![&broken], "broken.jsonl:1: "),
        (vec![&broken, "--config", &missing], "--config "),
        (
            vec![&broken, "--extract", "a/b@0"],
            "is not the number of a decision",
        ),
    ] {
        let output = run("berth", &[&["replay"], arguments.as_slice()].concat());
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(errors.contains(expected), "{arguments:?}: {errors}");
    }
}

/// A regular file has the name of the parent folder, so the scheduler cannot create the folder and exits with code 1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_cannot_be_created_stops_the_start() {
    let bare = BareControlPlane::start(&[]).await;
    let file = write(bare.folder(), "file", "");
    let arguments = [
        "scheduler",
        &format!("--kubeconfig={}", bare.kubeconfig().display()),
        &format!("--decision-log={file}/log"),
        "--health-probe-bind-address=0",
        "--metrics-bind-address=0",
    ];
    let output = run("berth", &arguments);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("cannot create a decision log in"),
        "{errors}"
    );
    bare.stop().await;
}
