//! docs/propagation.md shows what is there: its commands run on `berth up`, and say what the page says.

use berth_test_requirements::needs;
use std::path::{Path, PathBuf};
use std::process::Command;

use berth::up::{ControlPlane, UpArgs};
use berth_e2e::eventually;

/// A command of the page, and what it prints there.
struct Shown {
    command: String,
    output: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn shown() -> Vec<Shown> {
    let page = std::fs::read_to_string(root().join("docs/propagation.md")).unwrap();
    let mut all: Vec<Shown> = Vec::new();
    for block in page.split("```console\n").skip(1) {
        let (block, _) = block.split_once("```").unwrap();
        for line in block.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                all.push(Shown {
                    command: command.to_owned(),
                    output: String::new(),
                });
            } else {
                let last = all.last_mut().unwrap();
                last.output.push_str(line);
                last.output.push('\n');
            }
        }
    }
    all
}

/// Whether a line is as shown; `…` stands for anything up to the end.
fn fits(line: &str, shown: &str) -> bool {
    match shown.split_once('…') {
        Some((beginning, _)) => line.starts_with(beginning),
        None => line.trim_end() == shown,
    }
}

#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_walk_of_the_page_can_be_walked() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let arguments = UpArgs {
        port: 0,
        ..UpArgs::default()
    };
    let plane = ControlPlane::start(&arguments).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, plane.kubeconfig()).unwrap();
    let shown = shown();
    assert!(shown.len() > 15, "the page shows {} commands", shown.len());
    for Shown { command, output } in shown {
        // What only looks is asked until the answer is there; what changes something is done once.
        let changes = ["apply", "scale", "delete", "create", "patch"]
            .iter()
            .any(|verb| command.split(' ').any(|word| word == *verb));
        let run = || {
            let answer = Command::new("bash")
                .args(["-c", &command])
                .current_dir(root())
                .env("KUBECONFIG", &kubeconfig)
                .env("KUBECACHEDIR", folder.path().join("cache"))
                .output()
                .unwrap();
            let mut said = String::from_utf8_lossy(&answer.stdout).into_owned();
            said.push_str(&String::from_utf8_lossy(&answer.stderr));
            let same = said.lines().count() == output.lines().count()
                && said.lines().zip(output.lines()).all(|(a, b)| fits(a, b));
            if same { Ok(()) } else { Err(said) }
        };
        if changes {
            if let Err(said) = run() {
                panic!("{command}: {said}");
            }
        } else {
            eventually(&command, async || run()).await;
        }
    }
    plane.stop().await;
}
