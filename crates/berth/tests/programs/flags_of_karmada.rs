//! Tests that Berth's programs accept all flags that Karmada documents for its programs of the same names.

use std::str::FromStr;

use self::Kind::{Bool, Bytes, Duration, Float, Gates, Int, Severity, Text};
use super::command_line::parse;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bool,
    Bytes,
    Duration,
    Float,
    Gates,
    Int,
    Severity,
    Text,
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let kinds = [Bool, Bytes, Duration, Float, Gates, Int, Severity, Text];
        let mut kinds = kinds.into_iter();
        let found = kinds.find(|kind| format!("{kind:?}") == name);
        found.ok_or_else(|| format!("{name} is no kind of values"))
    }
}

impl Kind {
    /// Returns a value that Karmada refuses for flags of this kind.
    fn invalid(self) -> Option<&'static str> {
        match self {
            Bool => Some("maybe"),
            Bytes => Some("1X"),
            Duration => Some("5 minutes"),
            Float | Int => Some("many"),
            Gates => Some("NoSuchGate=true"),
            Severity => Some("LOUD"),
            Text => None,
        }
    }
}

/// A flag of a program of Karmada.
struct Flag {
    program: &'static str,
    name: &'static str,
    kind: Kind,
    /// A valid value, which is usually Karmada's default.
    default: &'static str,
}

const PROGRAMS: [&str; 4] = [
    "karmada-scheduler",
    "karmada-controller-manager",
    "karmada-webhook",
    "karmada-scheduler-estimator",
];

/// Returns the flags in the file flags_of_karmada.txt.
fn flags() -> Vec<Flag> {
    let mut flags = Vec::new();
    let mut programs = "";
    for line in include_str!("flags_of_karmada.txt").lines() {
        if let Some(section) = line.strip_prefix('[') {
            programs = section.trim_end_matches(']');
        } else if let Some((kind, flag)) = line.split_once(" --") {
            let (name, default) = flag.split_once('=').unwrap();
            flags.extend(programs.split(' ').map(|program| Flag {
                program,
                name,
                kind: kind.parse().unwrap(),
                default,
            }));
        }
    }
    assert!(
        PROGRAMS
            .iter()
            .all(|name| flags.iter().any(|flag| flag.program == *name))
    );
    flags
}

#[test]
fn every_documented_flag_is_accepted() {
    for Flag {
        program,
        name,
        kind,
        default,
    } in flags()
    {
        let flag = format!("--{name}={default}");
        assert_eq!(parse(program, &[&flag]), Ok(()), "{program} {flag}");
        if kind == Bool {
            let alone = format!("--{name}");
            assert_eq!(parse(program, &[&alone]), Ok(()), "{program} {alone}");
        } else if !default.is_empty() {
            let words = [&format!("--{name}"), default];
            assert_eq!(parse(program, &words), Ok(()), "{program} {words:?}");
        }
    }
}

#[test]
fn errors_about_malformed_values_contain_the_name_of_the_flag() {
    for flag in flags() {
        let Some(value) = flag.kind.invalid() else {
            continue;
        };
        let (program, name) = (flag.program, flag.name);
        let error = parse(program, &[&format!("--{name}={value}")]).unwrap_err();
        let prefix = format!("'--{name}");
        let named = [" <", " [", "["]
            .iter()
            .any(|end| error.contains(&format!("{prefix}{end}")));
        assert!(named, "{program} --{name}: {error}");
    }
}

#[test]
fn flags_with_underscores_and_repeated_flags_are_accepted() {
    for program in PROGRAMS {
        for words in [
            &["--log_dir=/tmp", "--enable_pprof=false"][..],
            &["--v=4", "--v=2"],
            &["--one-output", "--one-output=false"],
            &["--enable-pprof=T"],
        ] {
            assert_eq!(parse(program, words), Ok(()), "{program} {words:?}");
        }
    }
}
