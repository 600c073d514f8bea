//! What an expression may cost at most when it runs, from how large values can be that its schema allows.
//!
//! One unit is about one step of an evaluation. The estimate is that of a kube-apiserver, unit by unit, as it decides
//! which definitions can be written; what runs is bounded by other means.

mod calls;
mod known;
mod lists;
mod range;
mod sizes;

use std::collections::HashMap;

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue};

use super::check::{Checked, Facts, callee, is_type_name, qualified};
use super::syntax::Syntax;
use super::types::CelType;
pub(crate) use range::Range;
pub(crate) use sizes::{Sizes, most_values};

const SELECT: Range = Range::exactly(1);
const NEW_LIST: Range = Range::exactly(10);
const NEW_MAP: Range = Range::exactly(30);

/// What a checked expression costs at most.
pub(crate) fn most(syntax: &Syntax, checked: &Checked<'_>, sizes: &Sizes<'_>) -> u64 {
    let cost = syntax.with_room(|root| {
        let mut estimate = Estimate {
            facts: &checked.facts,
            sizes,
            paths: HashMap::new(),
            locals: Vec::new(),
            known: HashMap::new(),
            entries: HashMap::new(),
        };
        estimate.cost(root)
    });
    cost.map_or(u64::MAX, |cost| cost.max)
}

/// Nodes are told apart by where they are: those that a macro made have one number.
fn key(e: &IdedExpr) -> usize {
    std::ptr::from_ref(e).addr()
}

type Path = Vec<String>;

/// The sizes of what is in a list or map.
#[derive(Debug, Clone, Copy)]
struct Entry {
    of_list: bool,
    key: Range,
    value: Range,
}

impl Entry {
    fn union(self, other: Self) -> Self {
        Self {
            of_list: self.of_list,
            key: self.key.union(other.key),
            value: self.value.union(other.value),
        }
    }
}

/// A variable of a loop.
struct Local {
    name: String,
    path: Path,
    size: Option<Range>,
    entry: Option<Entry>,
}

/// An argument, or what a function is called on.
struct Node<'e> {
    e: &'e IdedExpr,
    of: CelType<'e>,
    path: Path,
    size: Option<Range>,
}

struct Estimate<'c> {
    facts: &'c Facts<'c>,
    sizes: &'c Sizes<'c>,
    /// Where the values of nodes are, from a variable on.
    paths: HashMap<usize, Path>,
    locals: Vec<Local>,
    known: HashMap<usize, Range>,
    entries: HashMap<usize, Entry>,
}

impl<'c> Estimate<'c> {
    fn cost(&mut self, e: &'c IdedExpr) -> Range {
        match &e.expr {
            Expr::Ident(name) => self.named(e, name),
            Expr::Select(select) => {
                if let Some(name) = self.type_name(e) {
                    return self.named(e, &name);
                }
                let cost = self.cost(&select.operand);
                if select.test {
                    return cost;
                }
                let mut path = self.path(&select.operand);
                path.push(select.field.clone());
                self.paths.insert(key(e), path);
                match self.facts.of(key(&select.operand)) {
                    CelType::Map(..) | CelType::Object(_) => cost.add(SELECT),
                    CelType::Named(name) if !name.starts_with("net.") => cost.add(SELECT),
                    _ => cost,
                }
            }
            Expr::Call(call) => self.call(e, call),
            Expr::List(list) => {
                let mut cost = NEW_LIST;
                let mut size = Range::of_none(list.elements.is_empty());
                for element in &list.elements {
                    cost = cost.add(self.cost(element));
                    size = size.union(self.size_or_any(element));
                }
                let entry = Entry {
                    of_list: true,
                    key: Range::exactly(1),
                    value: size,
                };
                self.entries.insert(key(e), entry);
                cost
            }
            Expr::Map(map) => {
                let mut cost = NEW_MAP;
                let mut sizes = [Range::of_none(map.entries.is_empty()); 2];
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        cost = cost.add(self.cost(&entry.key));
                        cost = cost.add(self.cost(&entry.value));
                        sizes[0] = sizes[0].union(self.size_or_any(&entry.key));
                        sizes[1] = sizes[1].union(self.size_or_any(&entry.value));
                    }
                }
                let [key_size, value] = sizes;
                let entry = Entry {
                    of_list: false,
                    key: key_size,
                    value,
                };
                self.entries.insert(key(e), entry);
                cost
            }
            Expr::Comprehension(c) if binds(c) => self.bind(e, c),
            Expr::Comprehension(c) => self.comprehension(e, c),
            Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => Range::exactly(0),
        }
    }

    /// The name of a type with dots, which is one name.
    fn type_name(&self, e: &IdedExpr) -> Option<String> {
        let name = qualified(e).filter(|name| is_type_name(name))?;
        let first = name.split('.').next()?;
        self.local(first).is_none().then_some(name)
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn named(&mut self, e: &IdedExpr, name: &str) -> Range {
        let path = match self.local(name) {
            Some(local) => local.path.clone(),
            None => vec![name.to_owned()],
        };
        self.paths.insert(key(e), path);
        SELECT
    }

    fn path(&self, e: &IdedExpr) -> Path {
        if let Expr::Ident(name) = &e.expr
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&key(e)).cloned().unwrap_or_default()
    }

    fn call(&mut self, e: &'c IdedExpr, call: &'c CallExpr) -> Range {
        if call.func_name == "dyn"
            && let [arg] = call.args.as_slice()
        {
            let cost = self.cost(arg).add(Range::exactly(1));
            self.same_sizes(e, arg);
            return cost;
        }
        let mut args = Vec::with_capacity(call.args.len());
        let mut costs = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            costs.push(self.cost(arg));
            args.push(self.argument(arg));
        }
        let signatures = self.facts.signatures(key(e));
        if signatures.is_empty() {
            return Range::exactly(0);
        }
        let (name, target) = callee(call);
        let mut cost = Range::exactly(0);
        let target = target.map(|target| {
            cost = self.cost(target);
            self.argument(target)
        });
        let mut own = Range {
            min: u64::MAX,
            max: 0,
        };
        let mut size: Option<Range> = None;
        for signature in signatures {
            let called = calls::Call {
                name: name.trim_start_matches('.'),
                signature,
                target: target.as_ref(),
                args: &args,
                costs: &costs,
            };
            let found = self.called(e, &called);
            own = own.union(found.cost);
            size = match (size, found.size) {
                (Some(size), Some(found)) => Some(size.union(found)),
                (size, found) => size.or(found),
            };
            if called.name == "_[_]"
                && let (Some(arg), Some(of)) = (args.first(), signature.takes.first())
            {
                let step = match of {
                    CelType::List(..) => "@items",
                    CelType::Map(..) => "@values",
                    _ => "",
                };
                if !step.is_empty() {
                    size = self.entry(arg.e).map(|entry| entry.value);
                    let mut path = self.path(arg.e);
                    path.push(step.to_owned());
                    self.paths.insert(key(e), path);
                }
            }
            if size.is_none() {
                size = self.size(e);
            }
        }
        self.sized(e, size);
        cost.add(own)
    }

    fn argument(&mut self, e: &'c IdedExpr) -> Node<'c> {
        let mut path = self.path(e);
        if path
            .first()
            .is_some_and(|first| first == "@result" || first == "__result__")
        {
            path.clear();
        }
        Node {
            e,
            of: self.facts.of(key(e)),
            path,
            size: self.size(e),
        }
    }

    fn bind(&mut self, e: &'c IdedExpr, c: &'c ComprehensionExpr) -> Range {
        let cost = self.cost(&c.iter_range).add(self.cost(&c.accu_init));
        self.push_value(&c.accu_var, &c.accu_init);
        let cost = cost.add(self.cost(&c.result));
        self.locals.pop();
        self.same_sizes(e, &c.result);
        cost
    }

    fn comprehension(&mut self, e: &'c IdedExpr, c: &'c ComprehensionExpr) -> Range {
        let mut cost = self.cost(&c.iter_range).add(self.cost(&c.accu_init));
        self.push_value(&c.accu_var, &c.accu_init);
        let outside = self.locals.len();
        match &c.iter_var2 {
            Some(second) => {
                self.push_entry(&c.iter_var, &c.iter_range, Part::Key);
                self.push_entry(second, &c.iter_range, Part::Value);
            }
            None => self.push_entry(&c.iter_var, &c.iter_range, Part::Either),
        }
        let condition = self.cost(&c.loop_cond);
        let step = self.cost(&c.loop_step);
        self.locals.truncate(outside);
        cost = cost.add(self.cost(&c.result));
        self.locals.pop();
        let count = self.size_or_any(&c.iter_range);
        cost = cost.add(count.multiply(step.add(condition)));
        match &c.accu_init.expr {
            Expr::Literal(_) => {
                let size = self.size(&c.accu_init);
                self.sized(e, size);
            }
            Expr::List(_) | Expr::Map(_) => {
                self.sized(e, Some(count));
                if let Some(entry) = self.entry(&c.loop_step) {
                    self.entries.insert(key(e), entry);
                }
            }
            _ => {}
        }
        cost
    }

    fn push_value(&mut self, name: &str, e: &IdedExpr) {
        let local = Local {
            name: name.to_owned(),
            path: self.path(e),
            size: self.size(e),
            entry: self.entry(e),
        };
        self.locals.push(local);
    }

    fn push_entry(&mut self, name: &str, range: &IdedExpr, part: Part) {
        let entry = self.entry(range);
        let of_list = match entry {
            Some(entry) => entry.of_list,
            None => matches!(self.facts.of(key(range)), CelType::List(..)),
        };
        let (step, value) = match part {
            Part::Key if of_list => ("@indices", false),
            Part::Either | Part::Value if of_list => ("@items", true),
            Part::Value => ("@values", true),
            _ => ("@keys", false),
        };
        let mut path = self.path(range);
        path.push(step.to_owned());
        let size = entry.map(|entry| if value { entry.value } else { entry.key });
        self.locals.push(Local {
            name: name.to_owned(),
            path,
            size,
            entry: None,
        });
    }
}

/// Which part of an entry a variable of a loop is.
#[derive(Clone, Copy)]
enum Part {
    Key,
    Value,
    /// The key of a map, the element of a list.
    Either,
}

/// Whether a loop is over nothing, and only binds a variable.
fn binds(c: &ComprehensionExpr) -> bool {
    let nothing = matches!(&c.iter_range.expr, Expr::List(list) if list.elements.is_empty());
    let never =
        matches!(&c.loop_cond.expr, Expr::Literal(LiteralValue::Boolean(truth)) if !truth.inner());
    nothing && never
}

#[cfg(test)]
mod tests {
    use super::super::check::check;
    use super::*;
    use serde_json::json;

    #[test]
    fn units_are_those_of_a_real_server() {
        let schema = json!({"type": "object", "properties": {"s": {"type": "string", "maxLength": 77},
            "l": {"type": "array", "maxItems": 17, "items": {"type": "string", "maxLength": 9}}, "n": {"type": "integer"}}});
        let this = CelType::of(&schema, "self", false).unwrap();
        let sizes = Sizes::new(&schema, false);
        for (rule, expected) in [
            ("self.s.contains(self.s)", 965),
            ("self.s == self.s", 35),
            ("self.s == 'abc'", 3),
            ("self.n == 1 && self.n == 2 || self.n == 3", 6),
            ("self.l.all(x, x == self.s)", 173),
            ("type(self.s) == string", 4),
        ] {
            let syntax = Syntax::parse(rule).unwrap();
            let checked = check(&syntax, &this, &this).unwrap();
            assert_eq!(most(&syntax, &checked, &sizes), expected, "{rule}");
        }
    }
}
