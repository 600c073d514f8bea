//! The progress of a drain: one line that is updated on a terminal, and otherwise one line for each binding that has left.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::time::Instant;

use berth_api::BindingKey;

use super::departing::Departing;
use crate::clusters::list::age;
use crate::output;

/// Columns to assume if the terminal reports no size.
const DEFAULT_WIDTH: usize = 80;
const CLEAR_LINE: &str = "\r\x1b[K";

/// Printer of the progress.
#[derive(Debug)]
pub(super) struct Progress {
    cluster: String,
    start: Instant,
    /// Bindings that have left.
    left: BTreeSet<BindingKey>,
    /// True while the line on the terminal is not complete.
    has_line: bool,
}

impl Drop for Progress {
    fn drop(&mut self) {
        let _ = self.clear();
    }
}

impl Progress {
    /// Starts the clock.
    pub(super) fn start(cluster: &str) -> Self {
        Self {
            cluster: cluster.to_owned(),
            start: Instant::now(),
            left: BTreeSet::new(),
            has_line: false,
        }
    }

    /// Returns the number of bindings that have left.
    pub(super) fn left(&self) -> usize {
        self.left.len()
    }

    /// Returns the time since the start, such as `35s`.
    pub(super) fn elapsed(&self) -> String {
        age(i64::try_from(self.start.elapsed().as_secs()).unwrap_or(i64::MAX))
    }

    /// Shows the progress. `all` is the number of the bindings that leave, and `departing` are those of the evicted
    /// bindings that have not left.
    pub(super) fn show(
        &mut self,
        evicted: &BTreeSet<BindingKey>,
        departing: &Departing,
        all: usize,
    ) -> io::Result<()> {
        let has_left = |key: &&BindingKey| !departing.contains_key(*key);
        let now_left: BTreeSet<BindingKey> = evicted.iter().filter(has_left).cloned().collect();
        let mut lines = String::new();
        for key in now_left.difference(&self.left) {
            let _ = writeln!(lines, "{key} has left {}", self.cluster);
        }
        self.left = now_left;
        if !io::stdout().is_terminal() {
            return output::print(&lines);
        }
        if all == 0 {
            return Ok(());
        }
        let line = self.line(departing, all);
        let width = output::terminal_width().unwrap_or(DEFAULT_WIDTH);
        let fitting: String = line.chars().take(width.saturating_sub(1)).collect();
        self.has_line = true;
        output::print(&format!("{CLEAR_LINE}{fitting}"))
    }

    /// Returns the line for a terminal.
    fn line(&self, departing: &Departing, all: usize) -> String {
        let mut line = format!(
            "{} of {all} have left {}, {}",
            self.left.len(),
            self.cluster,
            self.elapsed()
        );
        if let Some((key, reason)) = departing.first_key_value() {
            let _ = write!(line, "; waiting for {key}");
            if departing.len() > 1 {
                let _ = write!(line, " and {} more", departing.len() - 1);
            }
            let _ = write!(line, ": {reason}");
        }
        line
    }

    /// Prints a line for each binding that has not left.
    pub(super) fn remaining(
        &mut self,
        queue: &VecDeque<BindingKey>,
        departing: &Departing,
    ) -> io::Result<()> {
        self.clear()?;
        let mut lines = String::new();
        for (key, reason) in departing {
            let _ = writeln!(lines, "{key} waits: {reason}");
        }
        for key in queue {
            let _ = writeln!(lines, "{key} waits for its eviction");
        }
        output::print(&lines)
    }

    /// Removes the line from the terminal.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.has_line) {
            output::print(CLEAR_LINE)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_the_first_binding_that_waits() {
        let mut progress = Progress::start("m1");
        let key = |name: &str| BindingKey::new("shop", name);
        progress.left.insert(key("a"));
        let waits = |name: &str| (key(name), "1 of 2 are ready".to_owned());
        for (departing, expected) in [
            (Departing::new(), "1 of 3 have left m1, 0s"),
            (
                Departing::from([waits("b")]),
                "1 of 3 have left m1, 0s; waiting for shop/b: 1 of 2 are ready",
            ),
            (
                Departing::from([waits("b"), waits("c")]),
                "1 of 3 have left m1, 0s; waiting for shop/b and 1 more: 1 of 2 are ready",
            ),
        ] {
            assert_eq!(progress.line(&departing, 3), expected);
        }
    }
}
