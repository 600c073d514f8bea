//! Regular expressions of schemas and rules. Like Go, they limit the number of repetitions.

use regex::Regex;
use regex_syntax::ast::{self, Ast, RepetitionKind, RepetitionRange};

/// The most repetitions of a part of a pattern, multiplied by those of its enclosing parts.
const MOST: u32 = 1000;

/// Compiles a pattern.
pub(crate) fn read(pattern: &str) -> Result<Regex, String> {
    let refused = |message: String| format!("error parsing regexp: {message}");
    let tree = ast::parse::Parser::new()
        .parse(pattern)
        .map_err(|e| refused(format!("{}: `{pattern}`", e.kind())))?;
    if let Some(at) = too_often(&tree, MOST) {
        let shown = pattern.get(at.start.offset..at.end.offset);
        return Err(refused(format!(
            "invalid repeat count: `{}`",
            shown.unwrap_or(pattern)
        )));
    }
    Regex::new(pattern).map_err(|e| refused(e.to_string()))
}

/// Returns the first part that is repeated too often.
fn too_often(tree: &Ast, most: u32) -> Option<ast::Span> {
    match tree {
        Ast::Repetition(repeated) => {
            let times = match &repeated.op.kind {
                RepetitionKind::Range(RepetitionRange::Exactly(times)) => *times,
                RepetitionKind::Range(RepetitionRange::AtLeast(least)) => *least,
                RepetitionKind::Range(RepetitionRange::Bounded(_, most)) => *most,
                _ => 0,
            };
            if times > most {
                return Some(repeated.op.span);
            }
            too_often(&repeated.ast, most / times.max(1))
        }
        Ast::Group(group) => too_often(&group.ast, most),
        Ast::Alternation(of) => of.asts.iter().find_map(|part| too_often(part, most)),
        Ast::Concat(of) => of.asts.iter().find_map(|part| too_often(part, most)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_counted_through_those_around_them() {
        for fine in [
            "a{1000}",
            "(a{10}){100}",
            "a{500}b{600}",
            "[a{5000}]",
            "(a{3}|b)*",
            "a{2,}",
        ] {
            assert!(read(fine).is_ok(), "{fine}");
        }
        for (refused, says) in [
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a{1001,}", "invalid repeat count: `{1001,}`"),
            ("(a{10}){101}", "invalid repeat count: `{10}`"),
            ("(b|a{20}){2,60}", "invalid repeat count: `{20}`"),
        ] {
            assert_eq!(
                read(refused).unwrap_err(),
                format!("error parsing regexp: {says}")
            );
        }
        assert_eq!(
            read("(a").unwrap_err(),
            "error parsing regexp: unclosed group: `(a`"
        );
    }
}
