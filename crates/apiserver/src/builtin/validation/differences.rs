//! What differs between two texts, the way servers print it: a unified diff whose blocks are found as Go's difflib (and
//! Python's) finds them, longest first.

/// Lines around a difference that are shown, too.
const CONTEXT: usize = 3;

/// A run of equal lines: where it is in either text, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    before: usize,
    after: usize,
    length: usize,
}

/// A run of lines of either text, which are equal or are replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    equal: bool,
    before: (usize, usize),
    after: (usize, usize),
}

/// The differences, without a title.
pub(super) fn unified(before: &str, after: &str) -> String {
    let (before, after): (Vec<&str>, Vec<&str>) =
        (before.lines().collect(), after.lines().collect());
    let mut shown: Vec<String> = Vec::new();
    for hunk in hunks(runs(&before, &after)) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else {
            continue;
        };
        let (old, new) = (
            range(first.before.0, last.before.1),
            range(first.after.0, last.after.1),
        );
        shown.push(format!("@@ -{old} +{new} @@\n"));
        for run in &hunk {
            let lines = |sign: char, lines: &[&str]| -> Vec<String> {
                lines.iter().map(|line| format!("{sign}{line}\n")).collect()
            };
            let (old, new) = (
                &before[run.before.0..run.before.1],
                &after[run.after.0..run.after.1],
            );
            if run.equal {
                shown.extend(lines(' ', old));
            } else {
                shown.extend(lines('-', old));
                shown.extend(lines('+', new));
            }
        }
    }
    shown.concat()
}

fn range(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        length => format!("{},{length}", start + 1),
    }
}

/// The longest run of equal lines within a part of either text, the first of several.
fn longest(before: &[&str], after: &[&str], from: (usize, usize), to: (usize, usize)) -> Block {
    let mut best = Block {
        before: from.0,
        after: from.1,
        length: 0,
    };
    for i in from.0..to.0 {
        for j in from.1..to.1 {
            let length = (0..(to.0 - i).min(to.1 - j))
                .take_while(|k| before[i + k] == after[j + k])
                .count();
            if length > best.length {
                best = Block {
                    before: i,
                    after: j,
                    length,
                };
            }
        }
    }
    best
}

fn blocks(
    before: &[&str],
    after: &[&str],
    from: (usize, usize),
    to: (usize, usize),
    found: &mut Vec<Block>,
) {
    let best = longest(before, after, from, to);
    if best.length == 0 {
        return;
    }
    blocks(before, after, from, (best.before, best.after), found);
    found.push(best);
    let rest = (best.before + best.length, best.after + best.length);
    blocks(before, after, rest, to, found);
}

fn runs(before: &[&str], after: &[&str]) -> Vec<Run> {
    let end = (before.len(), after.len());
    let mut found = Vec::new();
    blocks(before, after, (0, 0), end, &mut found);
    let (mut all, mut at) = (Vec::new(), (0, 0));
    let last = Block {
        before: end.0,
        after: end.1,
        length: 0,
    };
    for block in found.into_iter().chain([last]) {
        if at != (block.before, block.after) {
            all.push(Run {
                equal: false,
                before: (at.0, block.before),
                after: (at.1, block.after),
            });
        }
        at = (block.before + block.length, block.after + block.length);
        if block.length > 0 {
            all.push(Run {
                equal: true,
                before: (block.before, at.0),
                after: (block.after, at.1),
            });
        }
    }
    all
}

/// Runs that are shown together, with the context of what differs.
fn hunks(runs: Vec<Run>) -> Vec<Vec<Run>> {
    let (mut all, mut hunk): (Vec<Vec<Run>>, Vec<Run>) = (Vec::new(), Vec::new());
    let count = runs.len();
    for (i, mut run) in runs.into_iter().enumerate() {
        let length = run.before.1 - run.before.0;
        let (is_first, is_last) = (i == 0, i + 1 == count);
        if run.equal && is_first && length > CONTEXT {
            run.before.0 = run.before.1 - CONTEXT;
            run.after.0 = run.after.1 - CONTEXT;
        } else if run.equal && is_last && length > CONTEXT {
            run.before.1 = run.before.0 + CONTEXT;
            run.after.1 = run.after.0 + CONTEXT;
        } else if run.equal && length > 2 * CONTEXT {
            let (mut head, mut tail) = (run.clone(), run);
            head.before.1 = head.before.0 + CONTEXT;
            head.after.1 = head.after.0 + CONTEXT;
            tail.before.0 = tail.before.1 - CONTEXT;
            tail.after.0 = tail.after.1 - CONTEXT;
            hunk.push(head);
            all.push(std::mem::take(&mut hunk));
            run = tail;
        }
        hunk.push(run);
    }
    all.push(hunk);
    all.retain(|hunk| hunk.iter().any(|run| !run.equal));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_shown_with_their_context() {
        let before = "a\nb\nc\nd\ne\nf\n";
        assert_eq!(unified(before, before), "");
        assert_eq!(
            unified(before, "a\nb\nc\nd\nE\nf\n"),
            "@@ -2,5 +2,5 @@\n b\n c\n d\n-e\n+E\n f\n"
        );
        let far = "1\na\nb\nc\nd\ne\nf\n2\n";
        assert_eq!(
            unified(far, "a\nb\nc\nd\ne\nf\n2\n3\n"),
            "@@ -1,4 +1,3 @@\n-1\n a\n b\n c\n@@ -6,3 +5,4 @@\n e\n f\n 2\n+3\n"
        );
        assert_eq!(unified("", "a\n"), "@@ -0,0 +1 @@\n+a\n");
    }
}
