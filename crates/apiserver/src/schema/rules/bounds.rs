//! How large an expression may be. Parsing and evaluating follow its nesting, so that this is what they need of the
//! stack; it is measured on the text, before anything follows it.

/// So many characters an expression may have.
const MAX_LENGTH: usize = 100_000;
/// So deep brackets, and what is in them, may be nested.
const MAX_DEPTH: usize = 250;
/// How deep the tree of a macro is that loops.
const LOOP: usize = 8;
/// Macros that become loops.
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

/// How deep the tree of an expression can be at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Depth(usize);

impl Depth {
    /// Whether it is deeper than what the stack of any thread has room for.
    pub(super) fn needs_room(self) -> bool {
        self.0 > 30
    }
}

/// Measures an expression, or says that it is too large, in the words of the CEL compiler.
pub(super) fn measure(source: &str) -> Result<Depth, String> {
    let refused = |why: &str| Err(format!("ERROR: <input>:-1:0: {why}"));
    let length = source.chars().count();
    if length > MAX_LENGTH {
        return refused(&format!(
            "expression code point size exceeds limit: size: {length}, limit {MAX_LENGTH}"
        ));
    }
    let mut scan = Scan::default();
    let mut rest = source;
    while let Some(next) = rest.chars().next() {
        let taken = scan.token(rest, next);
        rest = rest.get(taken..).unwrap_or_default();
        if scan.open.len() > MAX_DEPTH {
            return refused(&format!("expression recursion limit exceeded: {MAX_DEPTH}"));
        }
    }
    if scan.deepest > MAX_DEPTH {
        return refused("max recursion depth exceeded");
    }
    Ok(Depth(scan.deepest))
}

/// The place in the text, as deep as it can be in the tree.
#[derive(Default)]
struct Scan {
    /// For each open bracket, how deep it was before it and is right after it.
    open: Vec<(usize, usize)>,
    depth: usize,
    deepest: usize,
    /// How much deeper the next bracket leads.
    pending: usize,
    /// Whether the last token was a prefix operator; a run of them counts once.
    prefix: bool,
}

impl Scan {
    fn deeper(&mut self, levels: usize) {
        self.depth += levels;
        self.deepest = self.deepest.max(self.depth);
    }

    /// Where what is written next to each other begins.
    fn base(&self) -> usize {
        self.open.last().map_or(0, |(_, inside)| *inside)
    }

    /// Looks at one token, and returns its length.
    fn token(&mut self, rest: &str, next: char) -> usize {
        if let Some(length) = untouched(rest) {
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
                // What follows is around what was in the brackets.
                self.depth = self.open.pop().map_or(0, |(before, _)| before);
                self.deeper(1);
            }
            // Elements are beside each other, and chains of these are balanced.
            ',' | '&' | '|' => self.depth = self.base(),
            '!' | '-' if prefix => {}
            _ => self.deeper(1),
        }
        next.len_utf8()
    }
}

/// The length of what begins here and is not to be read: a text literal or a comment.
pub(super) fn untouched(rest: &str) -> Option<usize> {
    literal(rest).or_else(|| {
        rest.starts_with("//")
            .then(|| rest.find('\n').unwrap_or(rest.len()))
    })
}

/// The length of the text literal that begins here.
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
    fn what_is_deep_is_refused_and_what_is_long_is_not() {
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
        for fine in [
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
            assert!(measure(&fine).is_ok(), "{}", &fine[..20]);
        }
    }
}
