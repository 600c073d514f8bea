//! Limits on the size and nesting of expressions. The nesting is measured in the text before parsing, because the
//! parser and the interpreter are recursive.

/// Maximum size of an expression in bytes.
const MAX_LENGTH: usize = 100_000;
/// Maximum nesting of brackets and of the syntax tree.
const MAX_DEPTH: usize = 250;
/// Maximum depth for the stack of an ordinary thread.
const ORDINARY_DEPTH: usize = 30;
/// The stack size in bytes for the deepest accepted expression. It suffices without compiler optimisation.
const STACK: usize = 64 << 20;
/// The levels that a call of a macro in [`LOOPS`] adds to the syntax tree.
const LOOP: usize = 8;
const LOOPS: [&str; 6] = ["all", "exists", "exists_one", "existsOne", "map", "filter"];

/// An upper bound on the depth of a syntax tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Depth(usize);

impl Depth {
    /// Returns an upper bound on the depth of an expression.
    ///
    /// # Errors
    /// If the expression is too long or too deep.
    pub fn measure(source: &str) -> Result<Self, String> {
        measure(source)
    }

    /// Calls `work`. If an expression of this depth needs more stack than an ordinary thread has, uses a thread with a
    /// larger stack.
    ///
    /// # Errors
    /// If the thread cannot start.
    pub fn with_stack<T: Send>(self, work: impl FnOnce() -> T + Send) -> Result<T, String> {
        if self.0 <= ORDINARY_DEPTH {
            return Ok(work());
        }
        on_large_stack(work)
            .ok_or_else(|| "cannot start a thread for a deeply nested expression".to_owned())
    }
}

/// Calls `work` on a thread whose stack suffices for the deepest accepted expression. Returns `None` if the thread
/// cannot start or panics.
pub fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        thread.spawn_scoped(scope, work).ok()?.join().ok()
    })
}

/// Returns an upper bound on the depth of an expression. Fails if the expression is too long or too deep.
fn measure(source: &str) -> Result<Depth, String> {
    if source.len() > MAX_LENGTH {
        return Err(format!("longer than {MAX_LENGTH} bytes"));
    }
    // The depth outside and inside of each open bracket.
    let mut open: Vec<(usize, usize)> = Vec::new();
    let (mut depth, mut deepest, mut rest) = (0, 0, source);
    while let Some(next) = rest.chars().next() {
        let mut length = next.len_utf8();
        match next {
            '"' | '\'' => {
                let is_raw = source[..source.len() - rest.len()].ends_with(['r', 'R']);
                length = text_length(rest, next, is_raw);
            }
            '(' | '[' | '{' => {
                let before = &source[..source.len() - rest.len()];
                let is_loop = next == '(' && LOOPS.iter().any(|name| before.ends_with(name));
                let inside = depth + if is_loop { 1 + LOOP } else { 1 };
                open.push((depth, inside));
                depth = inside;
            }
            // An operator after the bracket encloses the bracketed expression, which adds a level to the depth outside.
            ')' | ']' | '}' => depth = open.pop().map_or(0, |(before, _)| before) + 1,
            // Elements of a list are at the same depth. So are operands of `&&` and `||`, because the parser balances
            // such chains.
            ',' | '&' | '|' => depth = open.last().map_or(0, |(_, inside)| *inside),
            '!' | '-' if rest[length..].starts_with(next) => {}
            _ if next.is_alphanumeric() || next.is_whitespace() || next == '_' => {}
            _ => depth += 1,
        }
        deepest = deepest.max(depth);
        if deepest > MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH}"));
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(Depth(deepest))
}

/// Returns the length of the text literal at the beginning of `rest`.
fn text_length(rest: &str, quote: char, is_raw: bool) -> usize {
    let mut escaped = false;
    let end = rest[1..].find(|c: char| {
        let ends = c == quote && !escaped;
        escaped = c == '\\' && !escaped && !is_raw;
        ends
    });
    end.map_or(rest.len(), |end| end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_deep_and_too_long_expressions_are_refused() {
        let nested = |open: &str, close: &str, times: usize| {
            format!("{}true{}", open.repeat(times), close.repeat(times))
        };
        for refused in [
            nested("(", ")", 300),
            nested("size([", "])", 300),
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
            format!("self.x in [{}]", vec!["'((((\\'('"; 5000].join(", ")),
            format!("r'{}' == \"{}\"", "\\(".repeat(400), "[".repeat(400)),
            "self.a.all(x, x.b.exists(y, y.c.map(z, z + 1).size() > 0))".to_owned(),
        ] {
            assert!(measure(&valid).is_ok(), "{}", &valid[..20]);
        }
    }
}
