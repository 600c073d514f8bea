//! Tests of the references in the pages: files and flags exist, and command lines of `berth` and YAML blocks can be
//! parsed.

use std::collections::BTreeSet;

use berth::cli::Cli;
use clap::{CommandFactory as _, Parser as _};
use serde_json::Value;

use crate::blocks::{Block, blocks};
use crate::{PAGES, read, repository};

/// Folders of the repository. A word of a command that starts with such a folder must be an existing path.
const FOLDERS: [&str; 7] = [
    "crates/",
    "deploy/",
    "docs/",
    "e2e/",
    "examples/",
    "hack/",
    "trial/",
];

/// Returns the shell blocks of a page.
fn shell_blocks(page: &str) -> Vec<Block> {
    let mut all = blocks(&read(page));
    all.retain(|block| ["sh", "bash"].contains(&block.language.as_str()));
    all
}

/// Returns the words of a command line, without quotes.
fn words(command: &str) -> Vec<String> {
    let parts = command.split_whitespace();
    parts.map(|word| word.replace(['\'', '"'], "")).collect()
}

/// Returns the command line of `berth` that a shell command runs, directly or by `cargo run`. Returns `None` for a
/// command that runs another program.
fn arguments(command: &str) -> Option<Vec<String>> {
    let words = words(command);
    let all: Vec<&str> = words.iter().map(String::as_str).collect();
    let rest = match all.as_slice() {
        ["berth", rest @ ..] | ["cargo", "run", "--", rest @ ..] => rest,
        ["cargo", "run", "-p", "test-filter", "--", rest @ ..] => {
            let mut scheduler = vec!["berth".to_owned(), "scheduler".to_owned()];
            // Only the program of the example contains this plugin.
            let flags = rest.iter().map(|word| word.replace(",-TestFilter", ""));
            scheduler.extend(flags);
            return Some(scheduler);
        }
        _ => return None,
    };
    let end = rest
        .iter()
        .position(|word| ["|", ">", ";", "&&"].contains(word));
    let rest = &rest[..end.unwrap_or(rest.len())];
    let program = std::iter::once("berth");
    Some(
        program
            .chain(rest.iter().copied())
            .map(str::to_owned)
            .collect(),
    )
}

#[test]
fn files_in_commands_exist() {
    for page in PAGES {
        for block in shell_blocks(page) {
            for word in block.commands().iter().flat_map(|line| words(line)) {
                let path = word
                    .split_once('=')
                    .map_or(word.as_str(), |(_, value)| value);
                let named = path == "crds" || FOLDERS.iter().any(|folder| path.starts_with(folder));
                assert!(!named || repository().join(path).exists(), "{page}: {path}");
            }
        }
    }
}

#[test]
fn command_lines_of_berth_parse() {
    let mut count = 0;
    for page in PAGES {
        for command in shell_blocks(page).iter().flat_map(Block::commands) {
            if let Some(arguments) = arguments(&command) {
                let parsed = Cli::try_parse_from(&arguments);
                assert!(parsed.is_ok(), "{page}: {command}: {parsed:?}");
                count += 1;
            }
        }
    }
    assert!(count >= 8, "found {count} command lines");
}

#[test]
fn yaml_in_the_pages_parses() {
    for page in PAGES {
        for block in blocks(&read(page)) {
            if block.language == "yaml" {
                let parsed = serde_saphyr::from_str::<Value>(&block.text);
                assert!(parsed.is_ok(), "{page}: {}: {parsed:?}", block.text);
            }
        }
    }
}

/// Flags of other programs that the pages name.
const FLAGS_OF_OTHERS: [&str; 5] = [
    "--controllers",
    "--help",
    "--package",
    "--set",
    "--with-karmada",
];

fn add_flags(command: &clap::Command, flags: &mut BTreeSet<String>) {
    for argument in command.get_arguments() {
        flags.extend(
            argument
                .get_long_and_visible_aliases()
                .into_iter()
                .flatten()
                .map(str::to_owned),
        );
    }
    for child in command.get_subcommands() {
        add_flags(child, flags);
    }
}

#[test]
fn flags_in_the_text_exist() {
    let mut flags = BTreeSet::new();
    add_flags(&Cli::command(), &mut flags);
    for page in PAGES {
        let text = read(page);
        // The parts with odd numbers are within backticks, including the backticks of fences.
        for code in text.split('`').skip(1).step_by(2) {
            let Some(flag) = code.strip_prefix("--") else {
                continue;
            };
            let name = flag.split(['=', ' ', '\'']).next().unwrap();
            let prefix = name.strip_suffix('*');
            let exists = FLAGS_OF_OTHERS.contains(&format!("--{name}").as_str())
                || flags.contains(name)
                || prefix.is_some_and(|prefix| flags.iter().any(|flag| flag.starts_with(prefix)));
            assert!(exists, "{page}: no flag --{name}");
        }
    }
}
