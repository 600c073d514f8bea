//! Limits on the size and nesting of expressions. The parser and the interpreter recurse, so nesting is measured on the
//! text first.

/// Maximum characters of an expression.
const MAX_LENGTH: usize = 100_000;
/// Maximum nesting of brackets and of the syntax tree.
const MAX_DEPTH: usize = 250;
/// The depth that a looping macro adds to the tree.
const LOOP: usize = 8;
/// Macros that expand to loops.
const LOOPS: &[&str] = &[
    "all",
    "exists",
    "exists_one",
    "existsOne",
    "map",
    "filter",
    "transformList",
    "transformMap",
    "sortBy",
];

/// An upper bound on the depth of a syntax tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Depth(usize);

impl Depth {
    /// Reports whether it may overflow the stack of an ordinary thread.
    pub(super) fn needs_stack(self) -> bool {
        self.0 > 30
    }
}

/// Measures an expression; fails if it is too long or too deep.
pub(super) fn measure(source: &str) -> Result<Depth, String> {
    let length = source.chars().count();
    if length > MAX_LENGTH {
        return Err(format!("longer than {MAX_LENGTH} characters"));
    }
    let mut scan = Scan::default();
    let mut rest = source;
    while let Some(next) = rest.chars().next() {
        let taken = scan.token(rest, next);
        rest = rest.get(taken..).unwrap_or_default();
        if scan.open.len() > MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH}"));
        }
    }
    if scan.deepest > MAX_DEPTH {
        return Err(format!("nested deeper than {MAX_DEPTH}"));
    }
    Ok(Depth(scan.deepest))
}

/// The position in the text, with its depth in the tree.
#[derive(Default)]
struct Scan {
    /// The depths before and after each open bracket.
    open: Vec<(usize, usize)>,
    depth: usize,
    deepest: usize,
    /// The depth that the next bracket adds.
    pending: usize,
    /// True after a prefix operator; a run of them counts once.
    prefix: bool,
}

impl Scan {
    fn deeper(&mut self, levels: usize) {
        self.depth += levels;
        self.deepest = self.deepest.max(self.depth);
    }

    /// Returns the depth right after the innermost open bracket.
    fn base(&self) -> usize {
        self.open.last().map_or(0, |(_, inside)| *inside)
    }

    /// Scans one token and returns its length.
    fn token(&mut self, rest: &str, next: char) -> usize {
        if let Some(length) = literal_length(rest) {
            self.prefix &= rest.starts_with("//");
            return length;
        }
        if next.is_alphabetic() || next == '_' {
            let word = |c: char| !(c.is_alphanumeric() || c == '_');
            let name = &rest[..rest.find(word).unwrap_or(rest.len())];
            let call = rest[name.len()..].trim_start().starts_with('(');
            self.pending = if call && LOOPS.contains(&name) {
                LOOP
            } else {
                0
            };
            self.prefix = false;
            return name.len();
        }
        if next.is_whitespace() || next.is_numeric() {
            return next.len_utf8();
        }
        let prefix = std::mem::replace(&mut self.prefix, matches!(next, '!' | '-'));
        match next {
            '(' | '[' | '{' => {
                let before = self.depth;
                let of_macro = std::mem::take(&mut self.pending);
                self.deeper(1 + of_macro);
                self.open.push((before, self.depth));
            }
            ')' | ']' | '}' => {
                // The following operators enclose the brackets.
                self.depth = self.open.pop().map_or(0, |(before, _)| before);
                self.deeper(1);
            }
            // Elements are siblings, and the parser balances chains of `&&` and `||`.
            ',' | '&' | '|' => self.depth = self.base(),
            '!' | '-' if prefix => {}
            _ => self.deeper(1),
        }
        next.len_utf8()
    }
}

/// Returns the length of the text literal or comment that begins here.
pub(super) fn literal_length(rest: &str) -> Option<usize> {
    literal(rest).or_else(|| {
        rest.starts_with("//")
            .then(|| rest.find('\n').unwrap_or(rest.len()))
    })
}

/// Returns the length of the text literal that begins here.
fn literal(rest: &str) -> Option<usize> {
    let prefix = rest
        .chars()
        .take(2)
        .take_while(|c| "rRbB".contains(*c))
        .count();
    let letters = &rest[..prefix];
    if !rest[prefix..].starts_with(['"', '\'']) {
        return None;
    }
    let raw = letters.contains(['r', 'R']);
    let body = &rest[prefix..];
    let quote = &body[..1];
    let triple = quote.repeat(3);
    let end = if body.starts_with(&triple) {
        triple.as_str()
    } else {
        quote
    };
    let mut at = prefix + end.len();
    while let Some(next) = rest.get(at..)?.chars().next() {
        if rest[at..].starts_with(end) {
            return Some(at + end.len());
        }
        at += next.len_utf8();
        if next == '\\' && !raw {
            at += rest[at..].chars().next().map_or(0, char::len_utf8);
        }
    }
    Some(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_expressions_are_refused_and_long_ones_are_not() {
        let nested = |open: &str, close: &str, times: usize| {
            format!("{}true{}", open.repeat(times), close.repeat(times))
        };
        for refused in [
            nested("(", ")", 300),
            nested("[", "]", 300),
            nested("size(", ")", 300),
            nested("[1].all(a, ", ")", 40),
            format!("self{} == 1", ".x".repeat(20_000)),
            format!("self{} == 1", "[0]".repeat(300)),
            format!("{} > 0", vec!["1"; 500].join(" + ")),
            format!("{}true{}", "true ? ".repeat(300), " : true".repeat(300)),
            format!("'{}' == 'a'", "a".repeat(100_000)),
        ] {
            assert!(measure(&refused).is_err(), "{}", &refused[..60]);
        }
        for valid in [
            nested("(", ")", 100),
            vec!["self.x > 0"; 5000].join(" && "),
            format!("{}true", "!".repeat(3000)),
            format!("self.x in [{}]", vec!["'((((('"; 5000].join(", ")),
            format!(
                "r'{}' == \"\"\"{}\"\"\"",
                "\\(".repeat(400),
                "[\"".repeat(400)
            ),
            "self.a.all(x, x.b.exists(y, y.c.map(z, z + 1).size() > 0))".to_owned(),
        ] {
            assert!(measure(&valid).is_ok(), "{}", &valid[..20]);
        }
    }
}
