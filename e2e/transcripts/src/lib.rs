//! Snapshots of the commands that a test runs and of all that they print. A file beside the test, in its folder
//! `snapshots/`, holds the expected text.
//!
//! [`assert_snapshot`](crate::assert_snapshot!) names the file after the function of the test. `INSTA_UPDATE=always`
//! writes the file, and otherwise a difference fails the test.

use std::fmt::Write as _;
use std::process::Output;

pub use insta;

/// Regular expressions for text that differs from run to run, and what a snapshot shows in its place. The folders of
/// `tempfile` and `mktemp` are known by their names.
const FILTERS: &[(&str, &str)] = &[
    (r"(/[\w.-]+)*/\.tmp\w{6}\b", "[folder]"),
    (r"\btmp\.\w{10}\b", "[work]"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "[time]"),
    (
        r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b",
        "[uid]",
    ),
    // A port that the operating system has chosen.
    (
        r"(127\.0\.0\.\d+|\[::1\]):(3[2-9]|[45]\d|60)\d{3}\b",
        "$1:[port]",
    ),
    (r#"\b(process"?:? +|kill -9 )\d+"#, "$1[id]"),
    (r"\bberth \d+\.\d+\.\d+( \([0-9a-f]+\))?", "berth [version]"),
    (
        r#""(version|resourceVersion)": "\d[\w.-]*""#,
        "\"$1\": \"[version]\"",
    ),
    // The order of ties depends on the random UID of a binding.
    (r#""ties": "(first|last)Name""#, "\"ties\": \"[order]\""),
    (r"is ready \(\d+\.\d+ s\)", "is ready ([time] s)"),
    (r"\btoken=[\w-]+", "token=[token]"),
    // An age in the last column of a table, and in another one.
    (r"(?m) {3}\d+s$", "   [age]"),
    (r" {3}\d+s {2,}", "   [age]   "),
];

/// The commands of a test with their outputs, in the form of a terminal session.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    text: String,
    replacements: Vec<(String, String)>,
}

impl Transcript {
    /// Returns an empty transcript.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows `shown` in place of a text that differs from run to run.
    #[must_use]
    pub fn replacing(mut self, text: impl Into<String>, shown: &str) -> Self {
        self.replacements.push((text.into(), shown.to_owned()));
        self
    }

    /// Adds the description of what follows.
    pub fn about(&mut self, description: &str) {
        let gap = if self.text.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.text, "{gap}# {description}");
    }

    /// Adds lines of text.
    pub fn lines(&mut self, lines: &str) {
        let end = if lines.is_empty() || lines.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        let _ = write!(self.text, "{lines}{end}");
    }

    /// Adds a command with its output, in which each line of standard error begins with `! `. A code of another value
    /// than 0, or none after a signal, follows.
    pub fn command(&mut self, words: &[&str], code: Option<i32>, out: &str, err: &str) {
        let _ = writeln!(self.text, "$ {}", words.join(" "));
        self.lines(out);
        for line in err.lines() {
            let _ = writeln!(self.text, "! {line}");
        }
        match code {
            Some(0) => {}
            Some(code) => self.lines(&format!("[exit code {code}]")),
            None => self.lines("[ended by a signal]"),
        }
    }

    /// Adds a command with its output, as [`Self::command`].
    pub fn ran(&mut self, words: &[&str], output: &Output) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        self.command(words, output.status.code(), &out, &err);
    }

    /// Returns the text after the replacements. The filters of [`settings`] are not applied yet.
    #[must_use]
    pub fn text(&self) -> String {
        let replaced = |text: String, (from, to): &(String, String)| text.replace(from, to);
        self.replacements.iter().fold(self.text.clone(), replaced)
    }
}

/// Returns the settings of a snapshot for [`assert_snapshot`](crate::assert_snapshot!).
///
/// # Panics
/// When a filter is not a regular expression.
#[must_use]
pub fn settings() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for (pattern, shown) in FILTERS {
        settings.add_filter(pattern, *shown);
    }
    settings
}

/// Compares a [`Transcript`] with the snapshot of the test that calls the macro. A test can call it once.
#[macro_export]
macro_rules! assert_snapshot {
    ($transcript:expr) => {
        $crate::settings().bind(|| $crate::insta::assert_snapshot!($transcript.text()))
    };
}
