//! Output of the results of `berth simulate` as tables, JSON or YAML.

mod fit;
mod json_yaml;
mod table;
mod wide;

use std::io::{self, Write};

use berth_plan::simulate::{Notes, Outcome, Simulation};
use berth_plan::what_if::{Decision, Moves, Share};

use super::args::Format;

/// Prints the result of a simulation with its notes. Tables are fitted to the width of the terminal. Notes follow a table
/// on standard output; with JSON or YAML, notes are printed on standard error.
///
/// # Errors
/// When the output cannot be written.
pub(super) fn write(
    format: Format,
    simulation: &Simulation,
    width: Option<usize>,
    out: &mut impl Write,
) -> io::Result<()> {
    let notes = &simulation.notes;
    match &simulation.outcome {
        Outcome::Decisions(all) => decisions(format, all, notes, width, out),
        Outcome::Moves(all) => moves(format, all, notes, width, out),
    }
}

/// Prints decisions and notes.
fn decisions(
    format: Format,
    decisions: &[Decision],
    notes: &Notes,
    width: Option<usize>,
    out: &mut impl Write,
) -> io::Result<()> {
    match format {
        Format::Table if decisions.is_empty() => writeln!(out, "no bindings to decide about")?,
        Format::Table => write!(out, "{}", table::decisions(decisions, width))?,
        Format::Wide => write!(out, "{}", wide::decisions(decisions, width))?,
        Format::Json | Format::Yaml => {
            let wire: Vec<json_yaml::Decision<'_>> =
                decisions.iter().map(json_yaml::Decision::new).collect();
            encode(format, &wire, out)?;
        }
    }
    let lines = decisions.iter().filter_map(tie).chain(notes.lines());
    print_notes(format, lines, out)
}

/// Prints the bindings that move, a summary, and notes. With JSON or YAML, the summary and the notes are printed on
/// standard error.
fn moves(
    format: Format,
    moves: &Moves,
    notes: &Notes,
    width: Option<usize>,
    out: &mut impl Write,
) -> io::Result<()> {
    match format {
        Format::Table if moves.moves.is_empty() => {}
        Format::Table => writeln!(out, "{}", table::moves(&moves.moves, width))?,
        Format::Wide => {
            for one in &moves.moves {
                writeln!(out, "{}", wide::moved(one, width))?;
            }
        }
        Format::Json | Format::Yaml => {
            let wire: Vec<json_yaml::Decision<'_>> =
                moves.moves.iter().map(json_yaml::Decision::moved).collect();
            encode(format, &wire, out)?;
        }
    }
    let summary = moves.summary(|number| number.to_string());
    if is_table(format) {
        writeln!(out, "{summary}")?;
    } else {
        let _ = writeln!(io::stderr(), "{summary}");
    }
    let ties = moves.moves.iter().filter_map(|one| tie(&one.to));
    print_notes(format, ties.chain(notes.lines()), out)
}

fn is_table(format: Format) -> bool {
    matches!(format, Format::Table | Format::Wide)
}

fn print_notes(
    format: Format,
    lines: impl Iterator<Item = String>,
    out: &mut impl Write,
) -> io::Result<()> {
    for line in lines {
        if is_table(format) {
            writeln!(out, "note: {line}")?;
        } else {
            let _ = writeln!(io::stderr(), "note: {line}");
        }
    }
    Ok(())
}

fn encode(
    format: Format,
    wire: &[json_yaml::Decision<'_>],
    out: &mut impl Write,
) -> io::Result<()> {
    if format == Format::Json {
        serde_json::to_writer_pretty(&mut *out, wire)?;
        return writeln!(out);
    }
    let yaml = serde_saphyr::to_string(&wire).map_err(io::Error::other)?;
    writeln!(out, "{}", yaml.trim_end())
}

fn tie(decision: &Decision) -> Option<String> {
    let other = decision.tie.as_ref()?;
    Some(format!(
        "{}: {} is an equally good placement; the UID of the resource decides the tie",
        decision.key,
        listed(other, decision.replicas.is_some(), usize::MAX)
    ))
}

/// Formats at most `limit` clusters, such as `member1:2, member2:1`. Formats an empty list as `-`.
pub(crate) fn listed(shares: &[Share], with_replicas: bool, limit: usize) -> String {
    if shares.is_empty() {
        return "-".to_owned();
    }
    let shown: Vec<String> = shares
        .iter()
        .take(limit)
        .map(|Share { name, replicas }| {
            if with_replicas {
                format!("{name}:{replicas}")
            } else {
                name.clone()
            }
        })
        .collect();
    match shares.len().saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
