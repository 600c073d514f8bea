//! What differs between two texts, the way servers print it: a unified diff whose blocks are found as Go's difflib (and
//! Python's) finds them, longest first, and lines
//! that are everywhere in a long text not at all.

use std::collections::HashMap;

/// Lines around a difference that are shown, too.
const CONTEXT: usize = 3;

/// A run of equal lines: where it is in either text, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    before: usize,
    after: usize,
    length: usize,
}

/// A line of either text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ends {
    before: usize,
    after: usize,
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
    let pair = Pair::of(before, after);
    let mut shown: Vec<String> = Vec::new();
    for hunk in hunks(pair.runs()) {
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
                &pair.before[run.before.0..run.before.1],
                &pair.after[run.after.0..run.after.1],
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

/// Two texts, and where the lines of the later one are.
struct Pair<'a> {
    before: Vec<&'a str>,
    after: Vec<&'a str>,
    /// Without lines that are there so often that they say nothing.
    places: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Pair<'a> {
    fn of(before: &'a str, after: &'a str) -> Self {
        /// Lines of shorter texts all count.
        const LONG: usize = 200;
        let (before, after): (Vec<&str>, Vec<&str>) =
            (before.lines().collect(), after.lines().collect());
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for (place, line) in after.iter().enumerate() {
            places.entry(line).or_default().push(place);
        }
        if after.len() >= LONG {
            let most = after.len() / 100 + 1;
            places.retain(|_, of| of.len() <= most);
        }
        Self {
            before,
            after,
            places,
        }
    }

    /// The longest run of equal lines within a part of either text, the first of several.
    fn longest(&self, from: Ends, to: Ends) -> Block {
        let mut best = Block {
            before: from.before,
            after: from.after,
            length: 0,
        };
        let mut lengths: HashMap<usize, usize> = HashMap::new();
        for i in from.before..to.before {
            let mut next = HashMap::new();
            let places = self.before.get(i).and_then(|line| self.places.get(line));
            for &j in places.into_iter().flatten() {
                if j < from.after {
                    continue;
                }
                if j >= to.after {
                    break;
                }
                let before = j.checked_sub(1).and_then(|j| lengths.get(&j));
                let length = before.copied().unwrap_or(0) + 1;
                next.insert(j, length);
                if length > best.length {
                    best = Block {
                        before: i + 1 - length,
                        after: j + 1 - length,
                        length,
                    };
                }
            }
            lengths = next;
        }
        self.grown(best, from, to)
    }

    /// A run with the equal lines around it that do not count on their own.
    fn grown(&self, mut best: Block, from: Ends, to: Ends) -> Block {
        let same = |i: usize, j: usize| self.before.get(i) == self.after.get(j);
        while best.before > from.before
            && best.after > from.after
            && same(best.before - 1, best.after - 1)
        {
            best.before -= 1;
            best.after -= 1;
            best.length += 1;
        }
        let end = |of: Block| (of.before + of.length, of.after + of.length);
        while end(best).0 < to.before && end(best).1 < to.after && same(end(best).0, end(best).1) {
            best.length += 1;
        }
        best
    }

    /// All runs of equal lines, in their order.
    fn blocks(&self) -> Vec<Block> {
        let all = Ends {
            before: self.before.len(),
            after: self.after.len(),
        };
        let (mut found, mut left) = (Vec::new(), vec![(Ends::default(), all)]);
        while let Some((from, to)) = left.pop() {
            let best = self.longest(from, to);
            if best.length == 0 {
                continue;
            }
            found.push(best);
            let start = Ends {
                before: best.before,
                after: best.after,
            };
            let end = Ends {
                before: best.before + best.length,
                after: best.after + best.length,
            };
            left.extend([(from, start), (end, to)]);
        }
        found.sort_by_key(|block| block.before);
        found
    }

    fn runs(&self) -> Vec<Run> {
        let last = Block {
            before: self.before.len(),
            after: self.after.len(),
            length: 0,
        };
        let (mut all, mut at): (Vec<Run>, _) = (Vec::new(), (0, 0));
        for block in self.blocks().into_iter().chain([last]) {
            if at != (block.before, block.after) {
                all.push(Run {
                    equal: false,
                    before: (at.0, block.before),
                    after: (at.1, block.after),
                });
            }
            at = (block.before + block.length, block.after + block.length);
            match all.last_mut().filter(|run| run.equal) {
                Some(run) => (run.before.1, run.after.1) = at,
                None if block.length > 0 => all.push(Run {
                    equal: true,
                    before: (block.before, at.0),
                    after: (block.after, at.1),
                }),
                None => {}
            }
        }
        all
    }
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

    /// Such a line is no place to begin at, however near it is.
    #[test]
    fn lines_that_are_there_often_do_not_count_in_long_texts() {
        let text = |start: &str| {
            let lines: Vec<String> = (0..150).map(|i| format!("same\n{i}\n")).collect();
            format!("{start}{}", lines.concat())
        };
        assert_eq!(
            unified(&text("a\nsame\nb\n"), &text("c\nsame\nd\n")),
            "@@ -1,6 +1,6 @@\n-a\n-same\n-b\n+c\n+same\n+d\n same\n 0\n same\n"
        );
    }
}
