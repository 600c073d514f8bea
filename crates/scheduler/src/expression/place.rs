//! Where in the source of an expression something is wrong, and whether the source is one that the parser can take.

/// Brackets within brackets, and choices.
pub(super) const MAX_BRACKETS: usize = 32;

/// What is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}, in {text:?}")]
pub(super) struct SyntaxError {
    /// From 1.
    pub(super) line: usize,
    /// From 1.
    pub(super) column: usize,
    /// The line.
    text: String,
    problem: String,
}

/// What is wrong at a line and a column.
pub(super) fn located(
    source: &str,
    (line, column): (usize, usize),
    problem: String,
) -> SyntaxError {
    let text = source.lines().nth(line.saturating_sub(1));
    SyntaxError {
        line,
        column,
        text: text.unwrap_or_default().chars().take(200).collect(),
        problem: problem.replace('\n', " "),
    }
}

/// The first place of a name in the source, outside of texts; the beginning where it is not found.
pub(super) fn place_of(source: &str, name: &str) -> (usize, usize) {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut before = ' ';
    outside_texts(source, |rest, c| {
        let found = !name.is_empty()
            && !is_name(before)
            && rest
                .strip_prefix(name)
                .is_some_and(|after| !after.starts_with(is_name));
        before = c;
        found
    })
    .unwrap_or((1, 1))
}

/// Where brackets and choices become more than the parser can take, whatever they mean.
pub(super) fn too_nested(source: &str) -> Option<(usize, usize)> {
    let (mut open, mut choices) = (0_usize, 0);
    outside_texts(source, |_, c| {
        match c {
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' => open = open.saturating_sub(1),
            '?' => choices += 1,
            _ => {}
        }
        open > MAX_BRACKETS || choices > MAX_BRACKETS
    })
}

/// The line and column of the first character outside of texts at which something is found.
fn outside_texts(
    source: &str,
    mut found: impl FnMut(&str, char) -> bool,
) -> Option<(usize, usize)> {
    let (mut quote, mut before, mut line, mut column) = (None, ' ', 1, 1);
    for (at, c) in source.char_indices() {
        if quote.is_none() && source.get(at..).is_some_and(|rest| found(rest, c)) {
            return Some((line, column));
        }
        match quote {
            None if c == '"' || c == '\'' => quote = Some(c),
            Some(open) if c == open && before != '\\' => quote = None,
            _ => {}
        }
        before = c;
        (line, column) = if c == '\n' {
            (line + 1, 1)
        } else {
            (line, column + 1)
        };
    }
    None
}
