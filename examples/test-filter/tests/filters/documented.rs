//! Tests of `docs/plugins.md`: its code and its configuration equal the files of the examples, and its commands start a
//! scheduler.

use std::path::PathBuf;

use berth_e2e::eventually;

use super::{Running, control_plane};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// Returns the code blocks with this language in the page. The lines lose their indentation.
fn blocks(language: &str) -> Vec<String> {
    let page = flat(&read("docs/plugins.md"));
    let begin = format!("```{language}\n");
    page.split(&begin)
        .skip(1)
        .map(|block| block.split("```").next().unwrap().to_owned())
        .collect()
}

fn flat(text: &str) -> String {
    text.lines()
        .fold(String::new(), |all, line| all + line.trim() + "\n")
}

/// Each part of a Rust block occurs in the source of an example.
#[test]
fn the_code_of_the_page_is_that_of_the_examples() {
    let sources = flat(&read("examples/test-filter/src/main.rs"))
        + &flat(&read("examples/approval/src/main.rs"));
    let blocks = blocks("rust");
    assert!(blocks.len() >= 5, "{blocks:?}");
    for block in blocks {
        // An empty line in a block stands for code that the page leaves out.
        for part in block.split("\n\n") {
            assert!(sources.contains(part), "{part}\nis in no example");
        }
    }
}

/// The page contains the configuration file of the example.
#[test]
fn the_configuration_of_the_page_is_that_of_the_example() {
    let file = read("examples/test-filter/config.yaml");
    let (first, rest) = file.split_once('\n').unwrap();
    assert!(first.starts_with("# yaml-language-server"));
    assert!(read("docs/plugins.md").contains(&format!("```yaml\n{rest}```")));
}

/// Each command starts the example scheduler. The plugin is enabled unless the command disables it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_the_page_run() {
    let commands: Vec<String> = blocks("sh").concat().lines().map(str::to_owned).collect();
    assert_eq!(commands.len(), 3);
    let bare = control_plane().await;
    for command in commands {
        let arguments = command
            .strip_prefix("cargo run -p test-filter -- --kubeconfig \"$KUBECONFIG\"")
            .unwrap();
        let examples = format!(" {}/examples/", root().display());
        let arguments = arguments.replace(" examples/", &examples).replace('\'', "");
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let running = Running::start(&bare, &arguments);
        let says = "caches are filled";
        eventually(&command, async || {
            let log = running.log();
            if log.contains(says) { Ok(()) } else { Err(log) }
        })
        .await;
        let enabled = running
            .log()
            .contains("Enable Scheduler plugin \"TestFilter\"");
        assert_eq!(enabled, !command.contains("-TestFilter"), "{command}");
    }
    bare.stop().await;
}
