//! Parsing and checking of an expression when the configuration is loaded, with limits on its length and nesting.

use std::fmt;

use berth_cel::{CompileError, Variable, on_large_stack, parse};

use super::budget::MAX_PATTERN_SIZE;
use super::check::{Check, Problem, Reads};
use super::source_position::{SyntaxError, error_at, outside_strings, position_of};
use super::variables::{BINDING, CLUSTER, Kind};

/// Maximum length of an expression, in bytes.
const MAX_LENGTH: usize = 4096;
/// Maximum number of nested brackets, and of question marks in one expression. Conditionals and optional fields contain
/// question marks.
const MAX_NESTING: usize = 32;

/// A parsed and checked expression.
pub(crate) struct Program {
    pub(crate) source: String,
    pub(crate) compiled: berth_cel::Program,
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
        // The parser is recursive, so nested expressions need a large stack.
        on_large_stack(|| Self::parse_here(source, wanted)).unwrap_or_else(|| {
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
        let invalid = |error: CompileError| invalid(source, error);
        let root = parse(source).map_err(invalid)?;
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
        let variables = [CLUSTER, BINDING].map(Variable::plain);
        let compiled = berth_cel::Program::compile(root, &variables, MAX_PATTERN_SIZE);
        Ok(Self {
            source: source.to_owned(),
            compiled: compiled.map_err(invalid)?,
            reads: check.reads,
        })
    }
}

/// Returns the error with its position.
fn invalid(source: &str, error: CompileError) -> SyntaxError {
    let (name, problem) = match error {
        CompileError::Syntax {
            line,
            column,
            message,
        } => {
            let message = message.trim_start_matches("Syntax error: ");
            return error_at(source, (line, column), format!("syntax error: {message}"));
        }
        CompileError::Undeclared { noun, name } => {
            let problem = format!("undeclared {noun} {name:?}");
            (name, problem)
        }
        CompileError::Pattern { function, message } => {
            let message = message.lines().last().unwrap_or_default();
            (function, format!("invalid pattern: {message}"))
        }
        CompileError::Other(problem) => (String::new(), problem),
    };
    error_at(source, position_of(source, &name), problem)
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
