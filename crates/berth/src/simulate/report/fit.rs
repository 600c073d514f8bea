//! Tables fitted to the width of a terminal. The cells of columns that do not fit are printed below their row.

use crate::columns::align;

/// Indentation of the lines below a row.
const INDENT: usize = 4;

/// Aligns a table. If the table is wider than `width`, the cells of its last columns are printed below their rows.
pub(super) fn fit(header: &[&str], rows: &[Vec<String>], width: Option<usize>) -> String {
    let table = align(header, rows);
    let Some(width) = width.filter(|width| !fits(&table, *width)) else {
        return table;
    };
    let first = |count: usize| {
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row[..count].to_vec()).collect();
        align(&header[..count], &rows)
    };
    let (count, table) = (1..header.len())
        .rev()
        .map(|count| (count, first(count)))
        .find(|(count, table)| *count == 1 || fits(table, width))
        .unwrap_or((header.len(), table));
    let mut lines = table.lines();
    let mut text = String::new();
    let mut put = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    lines.next().into_iter().for_each(&mut put);
    for (line, row) in lines.zip(rows) {
        put(line);
        let below = header[count..].iter().zip(&row[count..]);
        for (name, cell) in below.filter(|(_, cell)| *cell != "-") {
            for line in wrap(&format!("{name}: {cell}"), width) {
                put(&line);
            }
        }
    }
    text
}

fn fits(table: &str, width: usize) -> bool {
    table.lines().all(|line| line.chars().count() <= width)
}

/// Wraps a text between words. A word that is longer than `width` gets its own line.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = " ".repeat(INDENT);
    let mut is_empty = true;
    for word in text.split(' ') {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > width {
            let next = " ".repeat(INDENT + 2);
            lines.push(std::mem::replace(&mut line, next));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: [&str; 4] = ["NAME", "REPLICAS", "CLUSTERS", "REASON"];

    fn rows() -> Vec<Vec<String>> {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        vec![
            row([
                "nginx-deployment",
                "2",
                "member1:1, member2:1",
                "2/3 clusters: 1 cluster(s) did not match the placement cluster affinity constraint",
            ]),
            row(["web", "1", "member3", "-"]),
        ]
    }

    #[test]
    fn columns_that_do_not_fit_are_printed_below_their_row() {
        assert_eq!(
            fit(&HEADER, &rows(), Some(80)),
            "\
NAME               REPLICAS   CLUSTERS
nginx-deployment   2          member1:1, member2:1
    REASON: 2/3 clusters: 1 cluster(s) did not match the placement cluster
      affinity constraint
web                1          member3
"
        );
        assert_eq!(
            fit(&HEADER, &rows(), Some(30)),
            "\
NAME               REPLICAS
nginx-deployment   2
    CLUSTERS: member1:1,
      member2:1
    REASON: 2/3 clusters: 1
      cluster(s) did not match
      the placement cluster
      affinity constraint
web                1
    CLUSTERS: member3
"
        );
    }

    #[test]
    fn a_table_that_fits_or_has_no_width_is_unchanged() {
        let plain = align(&HEADER, &rows());
        assert_eq!(fit(&HEADER, &rows(), None), plain);
        assert_eq!(fit(&HEADER, &rows(), Some(200)), plain);
    }

    #[test]
    fn a_very_narrow_terminal_shows_one_column_and_one_word_per_line() {
        let text = fit(&HEADER, &rows(), Some(5));
        assert!(
            text.starts_with("NAME\nnginx-deployment\n    REPLICAS:\n      2\n"),
            "{text}"
        );
    }
}
