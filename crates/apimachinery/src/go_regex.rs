//! Regular expressions of schemas and CEL rules. As in Go, the number of repetitions is limited.

mod syntax;

use regex::{Regex, RegexBuilder};
use regex_syntax::ast::{self, Ast, RepetitionKind, RepetitionRange};

/// Maximum number of repetitions of a part of a pattern. The repetitions of nested parts are multiplied.
const MAX_REPETITIONS: u32 = 1000;

/// Maximum size of a compiled pattern, in bytes.
const MAX_SIZE: usize = 10 << 20;

/// Compiles a regular expression.
///
/// # Errors
/// If the pattern is malformed or too large.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    compile_within(pattern, MAX_SIZE)
}

/// Compiles a regular expression whose compiled form has at most this size, in bytes.
///
/// # Errors
/// If the pattern is malformed or too large.
pub fn compile_within(pattern: &str, size: usize) -> Result<Regex, String> {
    let failed = |message: String| format!("error parsing regexp: {message}");
    let converted = syntax::to_regex(pattern);
    let tree = ast::parse::Parser::new()
        .parse(&converted)
        .map_err(|e| failed(format!("{}: `{pattern}`", e.kind())))?;
    if let Some(at) = excessive_repetition(&tree, MAX_REPETITIONS) {
        let shown = converted.get(at.start.offset..at.end.offset);
        return Err(failed(format!(
            "invalid repeat count: `{}`",
            shown.unwrap_or(pattern)
        )));
    }
    RegexBuilder::new(&converted)
        .size_limit(size)
        .build()
        .map_err(|e| failed(e.to_string()))
}

/// Returns the position of the first repetition above the limit.
fn excessive_repetition(tree: &Ast, limit: u32) -> Option<ast::Span> {
    match tree {
        Ast::Repetition(repeated) => {
            let times = match &repeated.op.kind {
                RepetitionKind::Range(RepetitionRange::Exactly(times)) => *times,
                RepetitionKind::Range(RepetitionRange::AtLeast(least)) => *least,
                RepetitionKind::Range(RepetitionRange::Bounded(_, most)) => *most,
                _ => 0,
            };
            if times > limit {
                return Some(repeated.op.span);
            }
            excessive_repetition(&repeated.ast, limit / times.max(1))
        }
        Ast::Group(group) => excessive_repetition(&group.ast, limit),
        Ast::Alternation(of) => of
            .asts
            .iter()
            .find_map(|part| excessive_repetition(part, limit)),
        Ast::Concat(of) => of
            .asts
            .iter()
            .find_map(|part| excessive_repetition(part, limit)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_repetitions_are_multiplied() {
        for valid in [
            "a{1000}",
            "(a{10}){100}",
            "a{500}b{600}",
            "[a{5000}]",
            "(a{3}|b)*",
            "a{2,}",
        ] {
            assert!(compile(valid).is_ok(), "{valid}");
        }
        for (pattern, message) in [
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a{1001,}", "invalid repeat count: `{1001,}`"),
            ("(a{10}){101}", "invalid repeat count: `{10}`"),
            ("(b|a{20}){2,60}", "invalid repeat count: `{20}`"),
        ] {
            assert_eq!(
                compile(pattern).unwrap_err(),
                format!("error parsing regexp: {message}")
            );
        }
        assert_eq!(
            compile("(a").unwrap_err(),
            "error parsing regexp: unclosed group: `(a`"
        );
    }
}
