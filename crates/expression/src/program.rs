//! Parsing and checking of an expression when the configuration is loaded, with limits on its length and nesting.

use std::fmt;

use berth_cel::metering;
use kube_cel::cel::IdedExpr;
use kube_cel::cel::parser::Parser;

use super::check::{Check, Problem, Reads};
use super::functions::exists;
use super::rewrite::rewrite;
use super::source_position::{SyntaxError, error_at, outside_strings, position_of};
use super::variables::Kind;

/// Maximum length of an expression, in bytes.
const MAX_LENGTH: usize = 4096;
/// Maximum number of nested brackets, and of question marks in one expression. Conditionals and optional fields contain
/// question marks.
const MAX_NESTING: usize = 32;
/// Stack size of the parser's thread, in bytes. The parser is recursive, so nested expressions need a large stack.
const PARSER_STACK: usize = 64 << 20;

/// A parsed and checked expression.
pub(crate) struct Program {
    pub(crate) source: String,
    pub(crate) root: IdedExpr,
    pub(crate) reads: Reads,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Program").field(&self.source).finish()
    }
}

impl Program {
    /// Parses an expression, and checks that its value has the type `wanted`.
    ///
    /// # Errors
    /// If the expression is invalid or too large.
    pub(crate) fn parse(source: &str, wanted: Kind) -> Result<Self, SyntaxError> {
        let parse = || Self::parse_here(source, wanted);
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(PARSER_STACK);
            let thread = thread.spawn_scoped(scope, parse);
            thread.ok().and_then(|thread| thread.join().ok())
        })
        .unwrap_or_else(|| {
            let problem = "the parser failed".to_owned();
            Err(error_at(source, (1, 1), problem))
        })
    }

    fn parse_here(source: &str, wanted: Kind) -> Result<Self, SyntaxError> {
        if source.len() > MAX_LENGTH {
            let problem = format!("the expression is longer than {MAX_LENGTH} bytes");
            return Err(error_at(source, (1, 1), problem));
        }
        if let Some(position) = too_nested(source) {
            let problem = format!(
                "more than {MAX_NESTING} brackets are nested, or the expression has more than {MAX_NESTING} question marks"
            );
            return Err(error_at(source, position, problem));
        }
        let mut root = Parser::new()
            .enable_optional_syntax(true)
            .parse(source)
            .map_err(|errors| {
                let first = errors.errors.first();
                let position = first.map_or((1, 1), |error| error.pos);
                let problem = first.map_or("", |error| error.msg.as_str());
                let problem = problem.trim_start_matches("Syntax error: ");
                let position = (
                    usize::try_from(position.0).unwrap_or(1),
                    usize::try_from(position.1).unwrap_or(1),
                );
                error_at(source, position, format!("syntax error: {problem}"))
            })?;
        let locate = |problem: Problem| {
            let position = position_of(source, &problem.name);
            error_at(source, position, problem.text)
        };
        let mut check = Check::default();
        check.expression(&root, 0, 0).map_err(locate)?;
        let kind = check.kind(&root).map_err(locate)?;
        if kind != wanted && kind != Kind::Unknown {
            let (actual, wanted) = (kind.name(), wanted.name());
            let problem = format!("the expression is {actual}, not {wanted}");
            return Err(error_at(source, (1, 1), problem));
        }
        rewrite(&mut root);
        metering::meter(&mut root, &exists);
        Ok(Self {
            source: source.to_owned(),
            root,
            reads: check.reads,
        })
    }
}

/// Returns the position at which the nested brackets, or the question marks so far, exceed [`MAX_NESTING`]. The check
/// reads the source text, because deeper nesting overflows the parser's stack.
fn too_nested(source: &str) -> Option<(usize, usize)> {
    let (mut open, mut question_marks) = (0_usize, 0);
    outside_strings(source, |_, c| {
        match c {
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' => open = open.saturating_sub(1),
            '?' => question_marks += 1,
            _ => {}
        }
        open > MAX_NESTING || question_marks > MAX_NESTING
    })
}

#[cfg(test)]
mod tests {
    use super::super::check::MAX_LOOPS;
    use super::*;

    fn rejection(source: &str, wanted: Kind) -> String {
        Program::parse(source, wanted).unwrap_err().to_string()
    }

    #[test]
    fn errors_have_a_position() {
        for (source, wanted, starts) in [
            (
                "cluster.spec.region ==",
                Kind::Bool,
                "line 1, column 23: syntax error: ",
            ),
            (
                "true &&\n  foo == 1",
                Kind::Bool,
                "line 2, column 3: undeclared variable \"foo\"",
            ),
            (
                "'foo' == foo",
                Kind::Bool,
                "line 1, column 10: undeclared variable \"foo\"",
            ),
            (
                "1 == lower(cluster)",
                Kind::Bool,
                "line 1, column 6: undeclared function \"lower\"",
            ),
            (
                "cluster.metdata.name == 'a'",
                Kind::Bool,
                "line 1, column 9: there is no field \"metdata\" here, but apiVersion, ",
            ),
            (
                "cluster.metadata.name",
                Kind::Bool,
                "line 1, column 1: the expression is a string, not a bool",
            ),
            (
                "cluster.spec.region == 'a'",
                Kind::Number,
                "line 1, column 1: the expression is a bool, not a number",
            ),
            (
                "cluster.spec.region == 1",
                Kind::Bool,
                "line 1, column 1: cannot apply == to a string and a number",
            ),
            (
                "100 - cluster.spec.region",
                Kind::Number,
                "line 1, column 1: cannot apply - to a string: use a number",
            ),
            (
                "cluster.metadata.name.matches('[')",
                Kind::Bool,
                "line 1, column 23: invalid pattern: ",
            ),
            (
                "Foo{a: 1} == 1",
                Kind::Bool,
                "line 1, column 1: undeclared type \"Foo\"",
            ),
            ("", Kind::Bool, "line 1, column 1: syntax error: "),
        ] {
            let error = rejection(source, wanted);
            assert!(error.starts_with(starts), "{source}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn too_long_or_too_nested_expressions_are_rejected() {
        let long = format!("cluster.metadata.name == '{}'", "a".repeat(MAX_LENGTH));
        assert!(rejection(&long, Kind::Bool).contains("longer than 4096 bytes"));
        for (before, again, after) in [
            ("", "(", "1 == 1"),
            ("", "[", "1"),
            ("", "'a' == (", "1"),
            ("0", " + 1", " > 1"),
            ("true", " ? true : true", ""),
            ("cluster", ".a", " == 1"),
            ("[1]", "[0]", " == 1"),
            ("true", " == true", ""),
            ("", "size('a')+", ""),
        ] {
            let times = (MAX_LENGTH - before.len() - after.len()) / again.len();
            let source = format!("{before}{}{after}", again.repeat(times));
            assert!(Program::parse(&source, Kind::Bool).is_err(), "{source}");
        }
        let negated = format!("{}true", "!".repeat(4000));
        assert!(Program::parse(&negated, Kind::Bool).is_ok());
        let all = format!("true{}", " && true".repeat(500));
        assert!(Program::parse(&all, Kind::Bool).is_ok());
        let mut loops = "true".to_owned();
        for _ in 0..=MAX_LOOPS {
            loops = format!("[1, 2].all(x, {loops})");
        }
        assert!(rejection(&loops, Kind::Bool).contains("more than 3 loops"));
    }

    #[test]
    fn read_fields_are_recorded() {
        let source = "cluster.metadata.labels['a'] == binding.spec.resource.kind \
            && cluster.status.conditions.exists(c, c.type == 'Ready') && has(cluster.spec.region)";
        let reads = Program::parse(source, Kind::Bool).unwrap().reads;
        assert!(reads.cluster.includes(&["metadata"]));
        assert!(reads.cluster.includes(&["status", "conditions"]));
        assert!(reads.cluster.includes(&["spec", "region"]));
        assert!(!reads.cluster.includes(&["status", "apiEnablements"]));
        assert!(!reads.cluster.includes(&["metadata", "annotations"]));
        assert!(!reads.binding.includes(&["metadata"]));
        let all = Program::parse("size(cluster) > 0", Kind::Bool)
            .unwrap()
            .reads;
        assert!(all.cluster.includes(&["status", "apiEnablements"]));
        assert!(all.binding.is_empty());
    }
}
