//! Tests that replay recorded kubectl sessions. The output and exit codes must equal the recording, which was made with
//! a real kube-apiserver.

use crate::harness::server;
use crate::harness::server::ROOT_CA;
use berth_test_requirements::needs;

/// A session of imperative commands.
///
/// A line with `$` contains a command, in which `~` stands for a space within an argument. The output of the command
/// follows with an indentation. A line with `exit` follows if the exit code is not 0. `NS` stands for the namespace,
/// and `DIR` for the folder [`FILES`].
const IMPERATIVE: &str = include_str!("data/kubectl.txt");
/// A session with objects in files: apply, get, edit and wait.
const OBJECTS: &str = include_str!("data/kubectl_objects.txt");
/// A session with pods: allowed changes, resize and describe.
const PODS: &str = include_str!("data/kubectl_pods.txt");
/// Folder of the manifests that the sessions use.
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/apiserver/data/files");

struct Step<'a> {
    command: &'a str,
    printed: String,
    code: i32,
}

fn steps(session: &str) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    for line in session.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step {
                command,
                printed: String::new(),
                code: 0,
            });
        } else if let Some(step) = steps.last_mut() {
            if let Some(code) = line.strip_prefix("exit ") {
                step.code = code.parse().unwrap();
            } else {
                step.printed.push_str(line.strip_prefix("  ").unwrap());
                step.printed.push('\n');
            }
        }
    }
    steps
}

#[needs(kubectl)]
#[tokio::test]
async fn imperative_commands_print_the_recorded_output() {
    replay(IMPERATIVE).await;
}

#[needs(kubectl)]
#[tokio::test]
async fn object_commands_print_the_recorded_output() {
    replay(OBJECTS).await;
}

#[needs(kubectl)]
#[tokio::test]
async fn pod_commands_print_the_recorded_output() {
    replay(PODS).await;
}

/// Returns the output up to the word `Forbidden`. kube-apiserver prints a diff of the forbidden change after this word.
fn without_reason(printed: &str) -> &str {
    let end = printed.find("Forbidden:").unwrap_or(printed.len());
    printed[..end].trim_end()
}

async fn replay(session: &str) {
    let server = server().await;
    let namespace = server.namespace().await;
    let mut different = Vec::new();
    for step in steps(session) {
        let arguments: Vec<String> = step
            .command
            .split(' ')
            .map(|word| {
                word.replace('~', " ")
                    .replace("NS", &namespace)
                    .replace("DIR", FILES)
            })
            .collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = server.kubectl(&arguments).await;
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed).into_owned();
        // The recorded server did not create this ConfigMap in each namespace, so the recordings do not contain it.
        let lines = printed.lines().filter(|line| !line.contains(ROOT_CA));
        let printed = lines
            .collect::<Vec<_>>()
            .join("\n")
            .replace(&namespace, "NS")
            .replace(FILES, "DIR");
        let same_text = without_reason(&printed) == without_reason(&step.printed);
        if !same_text || output.status.code() != Some(step.code) {
            different.push(format!(
                "$ {}\n{}\nexit {:?}, but expected:\n{}\nexit {}",
                step.command,
                printed.trim_end(),
                output.status.code(),
                step.printed.trim_end(),
                step.code
            ));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n\n"));
}
