//! Text tables in kubectl's format: left-aligned columns, separated by three blanks.

/// Number of blanks between two columns.
const GAP: usize = 3;

/// Returns the table as text. Callers write `-` instead of an empty cell, so that each line has the same number of
/// words.
pub(crate) fn align(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let header: Vec<String> = header.iter().map(|&cell| cell.to_owned()).collect();
    for row in std::iter::once(&header).chain(rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            let padding = width - cell.chars().count() + GAP;
            line.extend(std::iter::repeat_n(' ', padding));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Returns the text of a value, or `-` if the value is missing.
pub(crate) fn cell(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Replaces control characters by blanks, so that a text from an object is one line and cannot contain escape
/// sequences.
pub(crate) fn plain(text: &str) -> String {
    let blank = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(blank).collect()
}
