//! Check that each step of the traces in `docs/architecture.md` names a function that its file defines, and that a
//! trace has at most [`MOST_STEPS`] steps.

use std::fs;
use std::path::Path;

/// The heading of the section with the traces.
const SECTION: &str = "## Two changes, step by step";
/// The maximum number of steps of a trace.
const MOST_STEPS: usize = 10;

/// A step of a trace: a function, such as `Queue::activate`, and the file that defines it.
#[derive(Debug, PartialEq, Eq)]
struct Step<'a> {
    function: &'a str,
    file: &'a str,
}

impl<'a> Step<'a> {
    /// Parses a line such as ``1. `Queue::activate` in `crates/scheduler/src/queue.rs`: …``. Returns `None` for a line
    /// that begins with no number.
    fn of(line: &'a str) -> Option<Self> {
        let (number, text) = line.split_once(". ")?;
        number.parse::<usize>().ok()?;
        let mut code = text.split('`').skip(1).step_by(2);
        Some(Self {
            function: code.next().unwrap_or_default(),
            file: code.next().unwrap_or_default(),
        })
    }

    /// Reports whether the text of a file defines the function, in an `impl` block of its type if it has one.
    fn is_defined_in(&self, text: &str) -> bool {
        let (owner, name) = match self.function.split_once("::") {
            Some((owner, name)) => (Some(owner), name),
            None => (None, self.function),
        };
        let definitions = [format!("fn {name}("), format!("fn {name}<")];
        let mut block = None;
        text.lines().any(|line| {
            if let Some(header) = line.strip_prefix("impl ") {
                block = header.strip_suffix(" {");
            } else if line == "}" {
                block = None;
            }
            block == owner
                && definitions
                    .iter()
                    .any(|definition| line.contains(definition))
        })
    }
}

/// Returns the traces of a page, each with the title and the steps.
fn traces(page: &str) -> Vec<(&str, Vec<Step<'_>>)> {
    let (_, section) = page.split_once(SECTION).unwrap();
    let section = section.split("\n## ").next().unwrap_or_default();
    let traces = section.split("\n### ").skip(1);
    traces
        .map(|trace| {
            let title = trace.lines().next().unwrap_or_default();
            (title, trace.lines().filter_map(Step::of).collect())
        })
        .collect()
}

#[test]
fn each_step_of_a_trace_names_a_function() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("docs/architecture.md")).unwrap();
    let traces = traces(&page);
    assert_eq!(traces.len(), 2, "{traces:?}");
    let mut problems = Vec::new();
    for (title, steps) in &traces {
        if steps.is_empty() || steps.len() > MOST_STEPS {
            problems.push(format!("{title}: {} steps", steps.len()));
        }
        for step in steps {
            let text = fs::read_to_string(root.join(step.file)).unwrap_or_default();
            if !step.is_defined_in(&text) {
                let Step { function, file } = step;
                problems.push(format!("{title}: {file} does not define {function}"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn functions_are_found_in_the_block_of_their_type() {
    let text = "fn free<T>() {}\nimpl Queue {\n    fn push(&self) {}\n}\nimpl Other {\n    fn pop(&self) {}\n}\n";
    let is_defined = |function| {
        let file = "";
        Step { function, file }.is_defined_in(text)
    };
    assert!(is_defined("free") && is_defined("Queue::push") && is_defined("Other::pop"));
    assert!(!is_defined("push") && !is_defined("Queue::pop") && !is_defined("Queue::free"));
    let step = Step::of("1. `Queue::push` in `src/queue.rs`: text with `code`.").unwrap();
    let (function, file) = ("Queue::push", "src/queue.rs");
    assert_eq!(step, Step { function, file });
    assert_eq!(Step::of("   `push` is not a step."), None);
}
