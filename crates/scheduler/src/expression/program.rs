//! An expression: parsed, checked and bounded when the configuration is loaded.

use std::fmt;

use kube_cel::cel::IdedExpr;
use kube_cel::cel::parser::Parser;

use super::check::{Check, Problem, Uses};
use super::place::{MAX_BRACKETS, SyntaxError, located, place_of, too_nested};
use super::turns::bound_loops;
use super::variables::Kind;

/// The length of an expression.
const MAX_LENGTH: usize = 4096;
/// The parser gets a stack of its own: it recurses over all of an expression.
const PARSER_STACK: usize = 64 << 20;

/// An expression that can be evaluated.
pub(super) struct Program {
    pub(super) source: String,
    pub(super) root: IdedExpr,
    pub(super) uses: Uses,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Program").field(&self.source).finish()
    }
}

impl Program {
    /// Parses an expression whose value is of this type.
    ///
    /// # Errors
    /// When it cannot be evaluated, whatever the objects are, or is too large.
    pub(super) fn parse(source: &str, wanted: Kind) -> Result<Self, SyntaxError> {
        let parse = || Self::parse_here(source, wanted);
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(PARSER_STACK);
            let thread = thread.spawn_scoped(scope, parse);
            thread.ok().and_then(|thread| thread.join().ok())
        })
        .unwrap_or_else(|| {
            let problem = "the parser has failed".to_owned();
            Err(located(source, (1, 1), problem))
        })
    }

    fn parse_here(source: &str, wanted: Kind) -> Result<Self, SyntaxError> {
        if source.len() > MAX_LENGTH {
            let problem = format!("the expression is longer than {MAX_LENGTH} bytes");
            return Err(located(source, (1, 1), problem));
        }
        if let Some(place) = too_nested(source) {
            let problem =
                format!("more than {MAX_BRACKETS} brackets or choices are within each other");
            return Err(located(source, place, problem));
        }
        let mut root = Parser::new()
            .enable_optional_syntax(true)
            .parse(source)
            .map_err(|errors| {
                let first = errors.errors.first();
                let place = first.map_or((1, 1), |error| error.pos);
                let problem = first.map_or("", |error| error.msg.as_str());
                let problem = problem.trim_start_matches("Syntax error: ");
                let place = (
                    usize::try_from(place.0).unwrap_or(1),
                    usize::try_from(place.1).unwrap_or(1),
                );
                located(source, place, format!("syntax error: {problem}"))
            })?;
        let refuse = |problem: Problem| {
            let place = place_of(source, &problem.name);
            located(source, place, problem.text)
        };
        let mut check = Check::default();
        check.look(&root, 0, 0).map_err(refuse)?;
        let kind = check.kind(&root).map_err(refuse)?;
        if kind != wanted && kind != Kind::Unknown {
            let (is, wanted) = (kind.name(), wanted.name());
            let problem = format!("{wanted} is wanted here, and the expression is {is}");
            return Err(located(source, (1, 1), problem));
        }
        bound_loops(&mut root);
        Ok(Self {
            source: source.to_owned(),
            root,
            uses: check.uses,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::MAX_LOOPS;
    use super::*;

    fn refused(source: &str, wanted: Kind) -> String {
        Program::parse(source, wanted).unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
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
                "line 1, column 1: a bool is wanted here, and the expression is a string",
            ),
            (
                "cluster.spec.region == 'a'",
                Kind::Number,
                "line 1, column 1: a number is wanted here, and the expression is a bool",
            ),
            (
                "cluster.spec.region == 1",
                Kind::Bool,
                "line 1, column 1: a string == a number has no meaning",
            ),
            (
                "100 - cluster.spec.region",
                Kind::Number,
                "line 1, column 1: - wants a number here, not a string",
            ),
            (
                "cluster.metadata.name.matches('[')",
                Kind::Bool,
                "line 1, column 23: the pattern is wrong: ",
            ),
            (
                "Foo{a: 1} == 1",
                Kind::Bool,
                "line 1, column 1: undeclared type \"Foo\"",
            ),
            ("", Kind::Bool, "line 1, column 1: syntax error: "),
        ] {
            let said = refused(source, wanted);
            assert!(said.starts_with(starts), "{source}: {said}");
            assert!(!said.contains('\n'), "{said}");
        }
    }

    #[test]
    fn large_expressions_are_refused() {
        let long = format!("cluster.metadata.name == '{}'", "a".repeat(MAX_LENGTH));
        assert!(refused(&long, Kind::Bool).contains("longer than 4096 bytes"));
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
        assert!(refused(&loops, Kind::Bool).contains("more than 3 loops"));
    }

    #[test]
    fn what_is_read_is_known() {
        let source = "cluster.metadata.labels['a'] == binding.spec.resource.kind \
            && cluster.status.conditions.exists(c, c.type == 'Ready') && has(cluster.spec.region)";
        let uses = Program::parse(source, Kind::Bool).unwrap().uses;
        assert!(uses.cluster.reach(&["metadata"]));
        assert!(uses.cluster.reach(&["status", "conditions"]));
        assert!(uses.cluster.reach(&["spec", "region"]));
        assert!(!uses.cluster.reach(&["status", "apiEnablements"]));
        assert!(!uses.cluster.reach(&["metadata", "annotations"]));
        assert!(!uses.binding.reach(&["metadata"]));
        let all = Program::parse("size(cluster) > 0", Kind::Bool)
            .unwrap()
            .uses;
        assert!(all.cluster.reach(&["status", "apiEnablements"]));
        assert!(all.binding.is_empty());
    }
}
