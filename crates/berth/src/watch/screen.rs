//! The picture on a terminal: clusters, bindings, and the last of what happened.

use std::collections::VecDeque;
use std::io::{self, Stdout, Write};

use rustix::termios::tcgetwinsize;

use super::board::Board;
use super::lines;
use crate::columns::{align, cell};

/// The size of a terminal that does not tell.
const SIZE: (usize, usize) = (24, 80);
/// How much of what happened is remembered.
const REMEMBERED: usize = 200;
/// The lines that what happened gets where there is little room.
const AT_LEAST: usize = 5;

/// How many of the last columns may be left out.
const LEFT_OUT: usize = 2;

const ALTERNATE: &str = "\x1b[?1049h\x1b[?25l";
const BACK: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// A terminal that shows the picture, and what it showed before when this is dropped.
#[derive(Debug)]
pub(super) struct Screen {
    out: Stdout,
    happened: VecDeque<String>,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn open() -> io::Result<Self> {
        let mut out = io::stdout();
        write!(out, "{ALTERNATE}")?;
        out.flush()?;
        Ok(Self {
            out,
            happened: VecDeque::new(),
        })
    }

    /// Something happened.
    pub(super) fn happened(&mut self, line: String) {
        if self.happened.len() == REMEMBERED {
            self.happened.pop_front();
        }
        self.happened.push_back(line);
    }

    /// Draws the picture again.
    pub(super) fn draw(&mut self, board: &Board) -> io::Result<()> {
        let size = tcgetwinsize(&self.out).map_or(SIZE, |size| {
            (usize::from(size.ws_row), usize::from(size.ws_col))
        });
        // Some terminals do not know.
        let size = if size.0 == 0 { SIZE } else { size };
        let mut text = HOME.to_owned();
        for line in picture(board, &self.happened, size) {
            text.push_str(&line);
            text.push_str(CLEAR_LINE);
            text.push_str("\r\n");
        }
        text.push_str(CLEAR_BELOW);
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = write!(self.out, "{BACK}");
        let _ = self.out.flush();
    }
}

/// The lines, as many and as long as fit; the last line of the terminal stays empty.
fn picture(
    board: &Board,
    happened: &VecDeque<String>,
    (rows, columns): (usize, usize),
) -> Vec<String> {
    let mut room = rows.saturating_sub(1);
    let mut all = Vec::new();
    let mut section = |lines: Vec<String>, room: &mut usize, reserve: usize| {
        let most = room.saturating_sub(reserve);
        let cut = lines.len() > most;
        let shown = if cut {
            most.saturating_sub(1)
        } else {
            lines.len()
        };
        let hidden = lines.len() - shown;
        all.extend(lines.into_iter().take(shown));
        if cut && most > 0 {
            all.push(format!("… and {hidden} more"));
        }
        *room = rows.saturating_sub(1).saturating_sub(all.len());
    };
    let mut clusters = table(
        &["CLUSTER", "READY", "BINDINGS", "REPLICAS"],
        &cluster_rows(board),
    );
    clusters.push(String::new());
    let reserve = room / 2;
    section(clusters, &mut room, reserve);
    let mut bindings = bindings(board, columns);
    bindings.push(String::new());
    section(bindings, &mut room, AT_LEAST);
    let latest = happened.len().saturating_sub(room);
    section(
        happened.iter().skip(latest).cloned().collect(),
        &mut room,
        0,
    );
    let fit = |line: String| line.chars().take(columns).collect();
    all.into_iter().map(fit).collect()
}

/// The table of bindings; where the terminal is narrow, without what is known anyway.
fn bindings(board: &Board, columns: usize) -> Vec<String> {
    let mut header = vec!["BINDING", "WANTED", "READY", "CLUSTERS", "KIND", "POLICY"];
    let mut rows = binding_rows(board);
    let fits = |lines: &[String]| lines.iter().all(|line| line.chars().count() <= columns);
    let mut lines = table(&header, &rows);
    for _ in 0..LEFT_OUT {
        if fits(&lines) {
            break;
        }
        header.pop();
        for row in &mut rows {
            row.pop();
        }
        lines = table(&header, &rows);
    }
    lines
}

fn table(header: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    align(header, rows).lines().map(str::to_owned).collect()
}

fn cluster_rows(board: &Board) -> Vec<Vec<String>> {
    let rows = board.clusters.iter().map(|(name, ready)| {
        let there = board.rows.values().filter_map(|row| row.places.get(name));
        let (mut bindings, mut replicas) = (0, 0);
        for place in there {
            bindings += 1;
            replicas += place.replicas.unwrap_or_default();
        }
        let ready = if *ready { "yes" } else { "NO" };
        vec![
            name.clone(),
            ready.to_owned(),
            bindings.to_string(),
            replicas.to_string(),
        ]
    });
    rows.collect()
}

fn binding_rows(board: &Board) -> Vec<Vec<String>> {
    let rows = board.rows.iter().map(|(key, row)| {
        let places: Vec<String> = row
            .places
            .iter()
            .map(|(name, place)| lines::place(name, place, row))
            .collect();
        let place = match &row.failure {
            Some(failure) if places.is_empty() => failure.clone(),
            _ => places.join(", "),
        };
        let policy = if row.policy.is_empty() && !row.follows.is_empty() {
            format!("follows {}", row.follows.join(", "))
        } else {
            row.policy.clone()
        };
        let given = |text: &String| (!text.is_empty()).then(|| text.clone());
        vec![
            key.to_string(),
            cell(row.wanted),
            cell(row.ready()),
            cell(given(&place)),
            row.kind.clone(),
            cell(given(&policy)),
        ]
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use berth_scheduler::binding::BindingKey;

    use super::super::board::{Place, Row};
    use super::*;

    fn board(bindings: usize) -> Board {
        let mut board = Board::default();
        board.clusters.insert("m1".to_owned(), true);
        board.clusters.insert("m2".to_owned(), false);
        for n in 0..bindings {
            let key = BindingKey {
                namespace: Some("shop".into()),
                name: format!("web{n}").as_str().into(),
            };
            let place = |replicas, ready| Place {
                replicas,
                ready,
                health: None,
            };
            let places = BTreeMap::from([
                ("m1".to_owned(), place(Some(2), Some(1))),
                ("m2".to_owned(), place(None, None)),
            ]);
            let row = Row {
                kind: "Deployment".to_owned(),
                policy: "web".to_owned(),
                follows: Vec::new(),
                wanted: Some(2),
                places,
                failure: None,
            };
            board.rows.insert(key, row);
        }
        board
    }

    #[test]
    fn everything_is_shown_where_there_is_room() {
        let happened = VecDeque::from(["it moved".to_owned()]);
        let picture = picture(&board(1), &happened, (24, 80));
        assert_eq!(
            picture,
            [
                "CLUSTER   READY   BINDINGS   REPLICAS",
                "m1        yes     1          2",
                "m2        NO      1          0",
                "",
                "BINDING     WANTED   READY   CLUSTERS             KIND         POLICY",
                "shop/web0   2        1       m1 1/2, m2 leaving   Deployment   web",
                "",
                "it moved",
            ]
        );
    }

    #[test]
    fn what_is_wanted_where_is_shown_on_a_narrow_terminal_too() {
        for (columns, last) in [(80, "POLICY"), (65, "KIND"), (50, "CLUSTERS")] {
            let lines = bindings(&board(1), columns);
            assert!(lines[0].ends_with(last), "{columns}: {lines:?}");
            assert!(lines[1].contains("m1 1/2, m2 leaving"), "{lines:?}");
        }
        let lines = bindings(&board(1), 10);
        assert!(lines[0].ends_with("CLUSTERS"), "{lines:?}");
    }

    #[test]
    fn what_does_not_fit_is_counted_and_cut() {
        let happened: VecDeque<String> = (0..50).map(|n| format!("event {n}")).collect();
        let picture = picture(&board(100), &happened, (20, 30));
        assert_eq!(picture.len(), 19);
        assert!(picture.iter().all(|line| line.chars().count() <= 30));
        assert!(picture.iter().any(|line| line.ends_with(" more")));
        assert_eq!(picture.last().unwrap(), "event 49");
        for size in [(0, 0), (1, 1), (3, 5)] {
            assert!(super::picture(&board(100), &happened, size).len() <= size.0);
        }
    }
}
