//! Mistakes in what is written down in a rule: patterns, times and formats that are none, and lists and maps of
//! different things. They are looked for when all types are known and fit.

use std::collections::BTreeMap;

use kube_cel::cel;
use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{CallExpr, Expr, LiteralValue};
use std::sync::Arc;

use super::super::types::CelType;
use super::unify::Known;
use super::{Problem, mismatch};
use crate::schema::pattern;

type Typed<'a> = (u64, CelType<'a>);

/// What was written, as the checker came by.
#[derive(Debug, Default)]
pub(super) struct Literals<'a> {
    lists: BTreeMap<u64, Elements<'a>>,
    maps: BTreeMap<u64, Vec<[Typed<'a>; 2]>>,
    /// Maps that must be of one kind.
    even_maps: Vec<u64>,
    formats: Vec<Format>,
    problems: Vec<Problem>,
    /// So many calls of `format` are around: what they are given may be of different types.
    formatting: usize,
}

#[derive(Debug)]
struct Elements<'a> {
    of: Vec<Typed<'a>>,
    /// Elements must be of one type.
    even: bool,
}

/// A call of `format` on a text, with a list as it is written.
#[derive(Debug)]
struct Format {
    at: u64,
    text: String,
    list: u64,
}

impl<'a> Literals<'a> {
    /// To be called before and after what is in a call.
    pub(super) fn enter(&mut self, formats: bool) {
        self.formatting += usize::from(formats);
    }

    pub(super) fn leave(&mut self, formats: bool) {
        self.formatting -= usize::from(formats);
    }

    pub(super) fn list(&mut self, at: u64, of: Vec<Typed<'a>>) {
        let even = self.formatting == 0;
        self.lists.insert(at, Elements { of, even });
    }

    pub(super) fn map(&mut self, at: u64, entries: Vec<[Typed<'a>; 2]>) {
        if self.formatting == 0 {
            self.even_maps.push(at);
        }
        self.maps.insert(at, entries);
    }

    pub(super) fn call(&mut self, at: u64, name: &str, call: &CallExpr) {
        let Some(first) = call.args.first() else {
            return;
        };
        let sound = match (name, literal(first)) {
            ("matches", Some(text)) => pattern::read(text).is_ok(),
            ("duration", Some(text)) => is_duration(text),
            ("timestamp", Some(text)) => {
                cel::functions::timestamp(Arc::new(text.to_owned())).is_ok()
            }
            // There is no duration of a number, though the types say so.
            ("duration", None) => !matches!(
                first.expr,
                Expr::Literal(LiteralValue::Int(_) | LiteralValue::Null)
            ),
            ("timestamp", None) => match &first.expr {
                Expr::Literal(LiteralValue::Null) => false,
                Expr::Literal(LiteralValue::Int(seconds)) => TIMES.contains(seconds.inner()),
                _ => true,
            },
            ("format", None) => {
                if let (Expr::List(_), Some(text)) =
                    (&first.expr, call.target.as_deref().and_then(literal))
                {
                    let text = text.to_owned();
                    let list = first.id;
                    self.formats.push(Format { at, text, list });
                }
                true
            }
            _ => true,
        };
        if !sound {
            self.problems.push(Problem {
                at: first.id,
                says: format!("invalid {name} argument"),
            });
        }
    }

    /// What is wrong.
    pub(super) fn problems(&mut self, known: &Known<'a>) -> Vec<Problem> {
        let mut problems = std::mem::take(&mut self.problems);
        let settled = |(at, of): &Typed<'a>| (*at, known.settled(of));
        for list in self.lists.values().filter(|list| list.even) {
            problems.extend(first_other(list.of.iter().map(settled)));
        }
        for entries in self.even_maps.iter().filter_map(|at| self.maps.get(at)) {
            for side in [0, 1] {
                problems.extend(first_other(entries.iter().map(|e| settled(&e[side]))));
            }
        }
        problems.extend(self.formats.iter().filter_map(|f| self.format(f, known)));
        problems
    }

    fn format(&self, format: &Format, known: &Known<'a>) -> Option<Problem> {
        let given = &self.lists.get(&format.list)?.of;
        let problem = |says: String| {
            let at = format.at;
            Some(Problem { at, says })
        };
        let (mut rest, mut used) = (format.text.as_str(), 0);
        while let Some(start) = rest.find('%') {
            rest = &rest[start + 1..];
            if let Some(after) = rest.strip_prefix('%') {
                rest = after;
                continue;
            }
            if rest.is_empty() {
                return problem("unexpected end of string".to_owned());
            }
            let Some((at, of)) = given.get(used) else {
                return problem(format!("index {used} out of range"));
            };
            used += 1;
            let clause = match clause(rest) {
                Ok((clause, after)) => {
                    rest = after;
                    clause
                }
                Err(says) => {
                    return problem(format!("could not parse formatting clause: {says}"));
                }
            };
            let said = |what: &str, (at, of): Typed<'a>| {
                let says = format!(
                    "error during formatting: {what}, was given {}",
                    runtime_name(&of)
                );
                Some(Problem { at, says })
            };
            let of = known.settled(of);
            if let Some(what) = clause.refuses(&of) {
                return said(what, (*at, of));
            }
            if matches!(clause, Clause::Text)
                && let Some(unfit) = self.not_text(*at, known)
            {
                return said(TEXT_ONLY, unfit);
            }
        }
        (used < given.len()).then(|| Problem {
            at: format.at,
            says: format!(
                "too many arguments supplied to string.format (expected {used}, got {})",
                given.len()
            ),
        })
    }

    /// What, in a list or map as it is written, is no text.
    fn not_text(&self, at: u64, known: &Known<'a>) -> Option<Typed<'a>> {
        let elements = self.lists.get(&at).into_iter().flat_map(|list| &list.of);
        let entries = self.maps.get(&at).into_iter().flatten().flatten();
        elements.chain(entries).find_map(|(at, of)| {
            let of = known.settled(of);
            match Clause::Text.refuses(&of) {
                Some(_) => Some((*at, of)),
                None => self.not_text(*at, known),
            }
        })
    }
}

/// The seconds since 1970 in the years from 1 to 9999.
const TIMES: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// The first that is not like the ones before.
fn first_other<'a>(mut all: impl Iterator<Item = Typed<'a>>) -> Option<Problem> {
    let (_, first) = all.next()?;
    let (at, other) = all.find(|(_, of)| !of.is(&first))?;
    let says = mismatch(&first, &other);
    Some(Problem { at, says })
}

fn literal(e: &IdedExpr) -> Option<&str> {
    match &e.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

const TEXT_ONLY: &str = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps";

/// What a format does with an argument.
#[derive(Clone, Copy)]
enum Clause {
    Text,
    Decimal,
    Fixed,
    Scientific,
    Binary,
    Hexadecimal,
    Octal,
}

impl Clause {
    /// Why it has no use for a value, if so.
    fn refuses(self, of: &CelType<'_>) -> Option<&'static str> {
        let (fits, why) = match self {
            Self::Text => (
                !matches!(
                    of,
                    CelType::Object(_) | CelType::Named(_) | CelType::Optional(_)
                ),
                TEXT_ONLY,
            ),
            Self::Decimal => (
                matches!(of, CelType::Int | CelType::Uint),
                "decimal clause can only be used on integers",
            ),
            Self::Fixed => (
                matches!(of, CelType::Double | CelType::String),
                "fixed-point clause can only be used on doubles",
            ),
            Self::Scientific => (
                matches!(of, CelType::Double | CelType::String),
                "scientific clause can only be used on doubles",
            ),
            Self::Binary => (
                matches!(of, CelType::Int | CelType::Uint | CelType::Bool),
                "only integers and bools can be formatted as binary",
            ),
            Self::Hexadecimal => (
                matches!(
                    of,
                    CelType::Int | CelType::Uint | CelType::String | CelType::Bytes
                ),
                "only integers, byte buffers, and strings can be formatted as hex",
            ),
            Self::Octal => (
                matches!(of, CelType::Int | CelType::Uint),
                "octal clause can only be used on integers",
            ),
        };
        (!fits && !matches!(of, CelType::Dyn)).then_some(why)
    }
}

/// Reads what follows a percent sign, and returns what follows that.
fn clause(text: &str) -> Result<(Clause, &str), String> {
    let rest = match text.strip_prefix('.') {
        None => text,
        Some(digits) => {
            let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
            let said = "error while parsing precision:";
            if rest.is_empty() {
                return Err(format!("{said} could not find end of precision specifier"));
            }
            let number = &digits[..digits.len() - rest.len()];
            if number.parse::<i64>().is_err() {
                let why = if number.is_empty() {
                    "invalid syntax"
                } else {
                    "value out of range"
                };
                return Err(format!(
                    "{said} error while converting precision to integer: strconv.Atoi: parsing \"{number}\": {why}"
                ));
            }
            rest
        }
    };
    let mut characters = rest.chars();
    let clause = match characters.next() {
        Some('s') => Clause::Text,
        Some('d') => Clause::Decimal,
        Some('f') => Clause::Fixed,
        Some('e') => Clause::Scientific,
        Some('b') => Clause::Binary,
        Some('x' | 'X') => Clause::Hexadecimal,
        Some('o') => Clause::Octal,
        other => {
            let other = other.map(String::from).unwrap_or_default();
            return Err(format!("unrecognized formatting clause \"{other}\""));
        }
    };
    Ok((clause, characters.as_str()))
}

/// What a type is called when a rule runs.
fn runtime_name<'t>(of: &'t CelType<'_>) -> &'t str {
    match of {
        CelType::Null => "null_type",
        CelType::Duration => "google.protobuf.Duration",
        CelType::Timestamp => "google.protobuf.Timestamp",
        _ => of.name(),
    }
}

/// Whether Go reads a text as a duration, of at most some 290 years.
fn is_duration(text: &str) -> bool {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1.0),
        ("us", 1e3),
        ("µs", 1e3),
        ("μs", 1e3),
        ("ms", 1e6),
        ("h", 3.6e12),
        ("m", 6e10),
        ("s", 1e9),
    ];
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut nanoseconds = 0.0;
    let empty = rest.is_empty();
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let Ok(number) = rest[..rest.len() - unit.len()].parse::<f64>() else {
            return false;
        };
        let Some((name, of)) = UNITS.iter().find(|(name, _)| unit.starts_with(name)) else {
            return false;
        };
        nanoseconds += number * of;
        rest = &unit[name.len()..];
    }
    !empty && nanoseconds < 9_223_372_036_854_775_808.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for sound in [
            "0", "1h", "-1.5h", "1h30m", ".5s", "1.s", "300ms", "2562047h", "1µs",
        ] {
            assert!(is_duration(sound), "{sound}");
        }
        for unsound in ["", "1", "1d", "h", "1h ", "+", "1.2.3s", ".s", "2562048h"] {
            assert!(!is_duration(unsound), "{unsound}");
        }
    }
}
