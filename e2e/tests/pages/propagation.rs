//! A test that runs the commands of `docs/propagation.md` on `berth up`. Each command must print the output that the
//! page shows.

use std::process::Command;

use berth::up::{ControlPlane, UpArgs};
use berth_e2e::eventually;
use berth_test_requirements::needs;

use crate::{read, repository};

/// A command of the page with the output that the page shows.
struct Example {
    command: String,
    output: String,
}

fn examples() -> Vec<Example> {
    let page = read("docs/propagation.md");
    let mut all: Vec<Example> = Vec::new();
    for block in page.split("```console\n").skip(1) {
        let (block, _) = block.split_once("```").unwrap();
        for line in block.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                all.push(Example {
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

/// Reports whether a printed line equals a line of the page. A `…` in the page matches the rest of the printed line.
fn matches(line: &str, shown: &str) -> bool {
    match shown.split_once('…') {
        Some((beginning, _)) => line.starts_with(beginning),
        None => line.trim_end() == shown,
    }
}

#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_of_the_page_print_the_output_shown() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let arguments = UpArgs {
        port: 0,
        ..UpArgs::default()
    };
    let plane = ControlPlane::start(&arguments).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, plane.kubeconfig()).unwrap();
    let examples = examples();
    assert!(
        examples.len() > 15,
        "the page shows {} commands",
        examples.len()
    );
    for Example { command, output } in examples {
        // A command that reads is repeated until its output matches. A command that writes runs once.
        let writes = ["apply", "scale", "delete", "create", "patch"]
            .iter()
            .any(|verb| command.split(' ').any(|word| word == *verb));
        let run = || {
            let result = Command::new("bash")
                .args(["-c", &command])
                .current_dir(repository())
                .env("KUBECONFIG", &kubeconfig)
                .env("KUBECACHEDIR", folder.path().join("cache"))
                .output()
                .unwrap();
            let mut printed = String::from_utf8_lossy(&result.stdout).into_owned();
            printed.push_str(&String::from_utf8_lossy(&result.stderr));
            let is_equal = printed.lines().count() == output.lines().count()
                && printed
                    .lines()
                    .zip(output.lines())
                    .all(|(a, b)| matches(a, b));
            if is_equal { Ok(()) } else { Err(printed) }
        };
        if writes {
            if let Err(printed) = run() {
                panic!("{command}: {printed}");
            }
        } else {
            eventually(&command, async || run()).await;
        }
    }
    plane.stop().await;
}
