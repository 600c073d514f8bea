//! docs/join.md: its commands run, one after the other, and say what the page shows.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::scene::Scene;

/// The commands of the page with what it shows of their answers. Lines after `$ ` are commands; `…` is anything.
fn commands(page: &str) -> Vec<(String, Vec<String>)> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for block in page.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for line in block.lines() {
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(command), _) => commands.push((command.to_owned(), Vec::new())),
                (None, Some((_, answer))) => answer.push(line.to_owned()),
                (None, None) => {}
            }
        }
    }
    commands
}

/// Whether a line is as shown; runs of blanks are one, and `…` stands for anything.
fn is_shown(line: &str, shown: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (line, shown) = (words(line), words(shown));
    let parts: Vec<&str> = shown.split('…').collect();
    let mut rest = line.as_str();
    for (place, part) in parts.iter().enumerate() {
        let Some(found) = rest.find(part) else {
            return false;
        };
        if place == 0 && found > 0 {
            return false;
        }
        rest = &rest[found + part.len()..];
    }
    parts.len() > 1 || rest.is_empty()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_the_page_say_what_it_shows() {
    let scene = Scene::start().await;
    let bin = scene.home().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let shim = bin.join("berth");
    let script = format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_berth"));
    std::fs::write(&shim, script).unwrap();
    std::fs::set_permissions(&shim, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/join.md");
    let page = std::fs::read_to_string(page).unwrap();
    let commands = commands(&page);
    assert!(commands.len() >= 10, "{commands:?}");
    for (line, shown) in commands {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("exec 2>&1; {line}")])
            .current_dir(scene.home())
            .env("HOME", scene.home())
            .env("PATH", &path)
            .env("KUBECONFIG", "control-plane.kubeconfig")
            .stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || shell.output().unwrap());
        let output = output.await.unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{line}: {said}");
        let said: Vec<&str> = said.lines().collect();
        assert_eq!(said.len(), shown.len(), "{line}: {said:#?}");
        for (told, shown) in said.iter().zip(&shown) {
            assert!(is_shown(told, shown), "{line}\nsays  {told}\nshown {shown}");
        }
    }
    scene.stop().await;
}
