//! The text of an expression, read: parsed, with all macros expanded, and with the places of its parts.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::parser::Parser;

use super::bounds::{self, Depth};
use super::check::Problem;
use super::macros;
use super::uses::Uses;

/// A read expression. It is checked, and made ready to run, from here.
#[derive(Debug)]
pub(crate) struct Syntax {
    source: String,
    /// On the heap, as its parts are: what is known of nodes is kept by where they are.
    root: Box<IdedExpr>,
    depth: Depth,
}

impl Syntax {
    /// Reads `source`, or says what is wrong with it in the words of the CEL compiler.
    pub(crate) fn parse(source: &str) -> Result<Self, String> {
        let depth = bounds::measure(source)?;
        let parse = || {
            let text = macros::for_parser(source);
            let parsed = Parser::new().enable_optional_syntax(true).parse(&text);
            parsed.map(|mut root| {
                let mut problems = Vec::new();
                macros::expand(&mut root, &mut problems);
                (root, problems)
            })
        };
        let (root, problems) = with_room(depth, parse)?.map_err(|errors| {
            let said: Vec<String> = errors
                .errors
                .iter()
                .map(|e| {
                    let whole = |n: isize| usize::try_from(n).unwrap_or(0);
                    located(source, (whole(e.pos.0), whole(e.pos.1)), &e.msg)
                })
                .collect();
            said.join("\n")
        })?;
        let syntax = Self {
            source: source.to_owned(),
            root: Box::new(root),
            depth,
        };
        if problems.is_empty() {
            Ok(syntax)
        } else {
            Err(syntax.said(problems))
        }
    }

    /// Whether a variable is used anywhere.
    pub(crate) fn mentions(&self, variable: &str) -> bool {
        Uses(&self.root).variable(variable)
    }

    /// The expression, and how deep it is.
    pub(super) fn into_parts(self) -> (IdedExpr, Depth) {
        (*self.root, self.depth)
    }

    /// Does something with the expression, with as much stack as it needs.
    pub(super) fn with_room<T: Send>(
        &self,
        work: impl FnOnce(&IdedExpr) -> T + Send,
    ) -> Result<T, String> {
        with_room(self.depth, || work(&self.root))
    }

    /// Problems with their places, as the CEL compiler shows them.
    pub(super) fn said(&self, problems: Vec<Problem>) -> String {
        const MOST: usize = 100;
        let places = Places::of(&self.source, self.depth);
        let mut found: Vec<((usize, usize), String)> = problems
            .into_iter()
            .take(MOST)
            .map(|problem| (places.position(&self.source, problem.at), problem.says))
            .collect();
        found.sort_by_key(|(position, _)| *position);
        let said: Vec<String> = found
            .into_iter()
            .map(|(position, says)| located(&self.source, position, &says))
            .collect();
        said.join("\n")
    }
}

/// Where the nodes of an expression begin.
struct Places(Option<std::sync::Arc<kube_cel::cel::common::ast::SourceInfo>>);

impl Places {
    /// The parser tells places only with an error, so it is given one, behind the end.
    fn of(source: &str, depth: Depth) -> Self {
        let broken = format!("{}\n)", macros::for_parser(source));
        let parse = || {
            let parsed = Parser::new().enable_optional_syntax(true).parse(&broken);
            let errors = parsed.err().map(|e| e.errors).unwrap_or_default();
            errors.into_iter().find_map(|e| e.source_info)
        };
        Self(with_room(depth, parse).ok().flatten())
    }

    /// Line and column of a node, from one.
    fn position(&self, source: &str, node: u64) -> (usize, usize) {
        let start = self.0.as_ref().and_then(|info| info.offset_for(node));
        let Some(start) = start.and_then(|(start, _)| usize::try_from(start).ok()) else {
            return (1, 1);
        };
        let (mut line, mut column) = (1, 1);
        for (_, character) in source.char_indices().take_while(|(at, _)| *at < start) {
            if character == '\n' {
                (line, column) = (line + 1, 1);
            } else {
                column += 1;
            }
        }
        (line, column)
    }
}

/// A problem at a place, as the CEL compiler shows it.
fn located(source: &str, (line, column): (usize, usize), problem: &str) -> String {
    let heading = format!("ERROR: <input>:{line}:{column}: {problem}");
    let Some(text) = line.checked_sub(1).and_then(|l| source.split('\n').nth(l)) else {
        return heading;
    };
    let mut mark = String::new();
    let mut characters = text.chars();
    for character in characters.by_ref().take(column.saturating_sub(1)) {
        mark.push(if character.is_ascii() { '.' } else { '．' });
    }
    let wide = characters.next().is_some_and(|c| !c.is_ascii());
    mark.push(if wide { '＾' } else { '^' });
    format!("{heading}\n | {}\n | {mark}", text.replace('\t', " "))
}

/// The stack for what is nested as deep as it may be, without optimisation.
const ROOM: usize = 64 << 20;

/// Does something with as much stack as it needs.
pub(super) fn with_room<T: Send>(
    depth: Depth,
    work: impl FnOnce() -> T + Send,
) -> Result<T, String> {
    if !depth.needs_room() {
        return Ok(work());
    }
    let done = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(ROOM);
        thread.spawn_scoped(scope, work).ok()?.join().ok()
    });
    done.ok_or_else(|| "ERROR: <input>:-1:0: there is no room for the expression".to_owned())
}
