//! A test of the page docs/simulate.md: every command in the page must succeed and print a result.

use std::process::Command;

use berth::up::{ControlPlane, UpArgs};

use crate::program::root;

/// Returns the commands in the shell blocks of the page. Joins lines that end with a backslash.
fn commands() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("docs/simulate.md")).unwrap();
    let mut commands = Vec::new();
    for block in text.split("```sh\n").skip(1) {
        let block = block.split("```").next().unwrap();
        commands.extend(block.replace("\\\n", " ").lines().map(str::to_owned));
    }
    commands
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_page_prints_a_result() {
    let plane = ControlPlane::start(&UpArgs {
        port: 0,
        ..UpArgs::default()
    })
    .await
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, plane.server().kubeconfig("berth")).unwrap();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_berth"));
    let path = format!(
        "{}:{}",
        program.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let commands = commands();
    assert!(commands.len() > 5, "{commands:?}");
    for command in commands {
        let output = {
            let (command, path, kubeconfig) = (command.clone(), path.clone(), kubeconfig.clone());
            tokio::task::spawn_blocking(move || {
                Command::new("bash")
                    .args(["-c", &command])
                    .current_dir(root())
                    .env("PATH", path)
                    .env("KUBECONFIG", kubeconfig)
                    .output()
                    .unwrap()
            })
            .await
            .unwrap()
        };
        assert!(output.status.success(), "{command}: {output:?}");
        assert!(!output.stdout.is_empty(), "{command}");
    }
    plane.stop().await;
}
