//! A test of the page docs/join.md: the commands in the page are run, and must print the output that the page shows.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::test_servers::TestServers;

/// Returns the commands of the page, each with the output that the page shows. Lines that start with `$ ` are commands.
fn commands(page: &str) -> Vec<(String, Vec<String>)> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for block in page.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for line in block.lines() {
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(command), _) => commands.push((command.to_owned(), Vec::new())),
                (None, Some((_, output))) => output.push(line.to_owned()),
                (None, None) => {}
            }
        }
    }
    commands
}

/// Reports whether a printed line matches a shown line. Several blanks equal one blank, and `…` in the shown line
/// matches any text.
fn matches_shown(line: &str, shown: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (line, shown) = (words(line), words(shown));
    let parts: Vec<&str> = shown.split('…').collect();
    let mut rest = line.as_str();
    for (index, part) in parts.iter().enumerate() {
        let Some(found) = rest.find(part) else {
            return false;
        };
        if index == 0 && found > 0 {
            return false;
        }
        rest = &rest[found + part.len()..];
    }
    parts.len() > 1 || rest.is_empty()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_print_what_the_page_shows() {
    let servers = TestServers::start().await;
    let bin = servers.home().join("bin");
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
            .current_dir(servers.home())
            .env("HOME", servers.home())
            .env("PATH", &path)
            .env("KUBECONFIG", "control-plane.kubeconfig")
            .stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || shell.output().unwrap());
        let output = output.await.unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{line}: {stdout}");
        let stdout: Vec<&str> = stdout.lines().collect();
        assert_eq!(stdout.len(), shown.len(), "{line}: {stdout:#?}");
        for (line_printed, shown) in stdout.iter().zip(&shown) {
            assert!(
                matches_shown(line_printed, shown),
                "{line}\nprinted {line_printed}\nshown   {shown}"
            );
        }
    }
    servers.stop().await;
}
