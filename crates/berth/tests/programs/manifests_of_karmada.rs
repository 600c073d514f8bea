//! Tests that Berth's programs accept the command lines in Karmada's manifests. A user can therefore replace a Karmada
//! program by changing only the image of the Deployment.

use super::command_line::parse;

/// Returns the command lines in the file manifests_of_karmada.txt, each with its place in Karmada's repository or
/// documentation.
fn command_lines() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    let sections = include_str!("manifests_of_karmada.txt")
        .split("\n[")
        .skip(1);
    sections.map(|section| {
        let (origin, line) = section.split_once("]\n").unwrap();
        (origin, line.split_whitespace().collect())
    })
}

#[test]
fn each_command_line_is_accepted() {
    assert!(command_lines().count() > 10);
    for (origin, line) in command_lines() {
        let (program, words) = line.split_first().unwrap();
        assert_eq!(parse(program, words), Ok(()), "{origin}: {line:?}");
        let extended = [words, &["--no-such-flag=1"]].concat();
        let error = parse(program, &extended).unwrap_err();
        assert!(error.contains("--no-such-flag"), "{origin}: {error}");
    }
}
