//! Positions in the source of an expression, and errors that show the position.

/// An error in an expression, with its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}, in {text:?}")]
pub(crate) struct SyntaxError {
    /// The line, counted from 1.
    pub(crate) line: usize,
    /// The column, counted from 1.
    pub(crate) column: usize,
    /// The text of the line.
    text: String,
    problem: String,
}

/// Returns an error at a line and column.
pub(crate) fn error_at(
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

/// Returns the first position of a name outside string literals, or the start of the source if there is none.
pub(crate) fn position_of(source: &str, name: &str) -> (usize, usize) {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut before = ' ';
    outside_strings(source, |rest, c| {
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

/// Returns the position of the first character outside string literals that the predicate accepts.
pub(crate) fn outside_strings(
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
