//! Macros that the parser lacks: macros of optional values, loops with two variables, and `sortBy`.
//!
//! The interpreter supports only one loop variable, so `compile` rewrites the second one.

use std::borrow::Cow;

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, MapExpr, operators,
};

use super::bounds;
use super::names::is_reserved;
use super::uses::visit;

/// The variable that loops collect into.
pub(super) const RESULT: &str = "@result";
/// Adds an entry to a map.
const INSERT: &str = "@mapInsert";
/// Sorts a list by the keys of its items.
pub(super) const SORT: &str = "@sortByAssociatedKeys";
const SORTED: &str = "@__sortBy_input__";
/// Maximum nodes of the target of `optMap`. The expansion contains the target twice, because the interpreter cannot bind an
/// optional value to a variable.
const MAX_TARGET: usize = 2000;
/// A replacement for `existsOne`, which the parser expands only with one variable.
const EXISTS_ONE: &str = "existsO__";

/// Replaces macros in the text for the parser. All positions stay the same.
pub(super) fn for_parser(source: &str) -> Cow<'_, str> {
    const NAME: &str = "existsOne";
    if !source.contains(NAME) {
        return Cow::Borrowed(source);
    }
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(next) = rest.chars().next() {
        let is_delimiter = |c: char| !(c.is_alphanumeric() || c == '_');
        let (length, instead) = if let Some(length) = bounds::literal_length(rest) {
            (length, None)
        } else if next.is_alphabetic() || next == '_' {
            let length = rest.find(is_delimiter).unwrap_or(rest.len());
            (length, (&rest[..length] == NAME).then_some(EXISTS_ONE))
        } else {
            (next.len_utf8(), None)
        };
        let (token, after) = rest.split_at(length);
        text.push_str(instead.unwrap_or(token));
        rest = after;
    }
    Cow::Owned(text)
}

/// Expands the macros in an expression.
pub(super) fn expand(e: &mut IdedExpr) -> Result<(), String> {
    let mut expanded = Ok(());
    children(e, &mut |child| {
        if expanded.is_ok() {
            expanded = expand(child);
        }
    });
    expanded?;
    if let Expr::Ident(name) = &e.expr
        && is_reserved(name)
    {
        return Err(format!("reserved identifier: {name}"));
    }
    let Expr::Call(call) = &mut e.expr else {
        return Ok(());
    };
    if call.func_name == EXISTS_ONE {
        "existsOne".clone_into(&mut call.func_name);
    }
    let Some(target) = call.target.as_deref() else {
        return Ok(());
    };
    let builder = NodeBuilder { at: e.id };
    let expanded = match (call.func_name.as_str(), call.args.as_slice()) {
        ("optMap", [variable, body]) => builder.optional(target, variable, body, true),
        ("optFlatMap", [variable, body]) => builder.optional(target, variable, body, false),
        ("sortBy", [variable, key]) => builder.sort_by(target, variable, key),
        (name, [first, second, rest @ ..]) => match Loop::named(name, rest) {
            Some(kind) => builder.two_variables(target, first, second, kind),
            None => return Ok(()),
        },
        _ => return Ok(()),
    };
    e.expr = expanded?;
    Ok(())
}

/// Calls `callback` for each direct subexpression.
fn children(e: &mut IdedExpr, callback: &mut dyn FnMut(&mut IdedExpr)) {
    match &mut e.expr {
        Expr::Call(call) => {
            call.target.iter_mut().for_each(|t| callback(t));
            call.args.iter_mut().for_each(callback);
        }
        Expr::Comprehension(c) => {
            callback(&mut c.iter_range);
            callback(&mut c.accu_init);
            callback(&mut c.loop_cond);
            callback(&mut c.loop_step);
            callback(&mut c.result);
        }
        Expr::List(list) => list.elements.iter_mut().for_each(callback),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    callback(&mut entry.key);
                    callback(&mut entry.value);
                }
            }
        }
        Expr::Select(select) => callback(&mut select.operand),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => {}
    }
}

/// Returns the number of nodes of an expression.
fn size(e: &IdedExpr) -> usize {
    let mut nodes = 0;
    visit(e, &mut |_| nodes += 1);
    nodes
}

/// A loop with two variables: its filter of entries, and the expression for each entry.
enum Loop<'e> {
    All(&'e IdedExpr),
    Exists(&'e IdedExpr),
    ExistsOne(&'e IdedExpr),
    List(Option<&'e IdedExpr>, &'e IdedExpr),
    Map(Option<&'e IdedExpr>, &'e IdedExpr),
    Entries(Option<&'e IdedExpr>, &'e IdedExpr),
}

impl<'e> Loop<'e> {
    fn named(name: &str, rest: &'e [IdedExpr]) -> Option<Self> {
        let (filter, body) = match rest {
            [body] => (None, body),
            [filter, body] if name.starts_with("transform") => (Some(filter), body),
            _ => return None,
        };
        Some(match name {
            "all" => Self::All(body),
            "exists" => Self::Exists(body),
            "existsOne" | "exists_one" => Self::ExistsOne(body),
            "transformList" => Self::List(filter, body),
            "transformMap" => Self::Map(filter, body),
            "transformMapEntry" => Self::Entries(filter, body),
            _ => return None,
        })
    }
}

/// Returns the name of a macro variable.
fn variable_name(e: &IdedExpr) -> Result<&str, String> {
    match &e.expr {
        Expr::Ident(name) => Ok(name),
        _ => Err("the variable of a macro must be a simple name".to_owned()),
    }
}

/// A builder of nodes at the position of a macro.
struct NodeBuilder {
    at: u64,
}

impl NodeBuilder {
    fn node(&self, expr: Expr) -> IdedExpr {
        IdedExpr { id: self.at, expr }
    }

    fn name(&self, name: &str) -> IdedExpr {
        self.node(Expr::Ident(name.to_owned()))
    }

    fn boolean(&self, value: bool) -> IdedExpr {
        self.node(Expr::Literal(LiteralValue::Boolean(value.into())))
    }

    fn number(&self, number: i64) -> IdedExpr {
        self.node(Expr::Literal(LiteralValue::Int(number.into())))
    }

    fn list(&self, elements: Vec<IdedExpr>) -> IdedExpr {
        self.node(Expr::List(ListExpr::new(elements)))
    }

    fn call(&self, function: &str, args: Vec<IdedExpr>) -> IdedExpr {
        self.node(Expr::Call(CallExpr {
            func_name: function.to_owned(),
            target: None,
            args,
        }))
    }

    fn call_on(&self, target: IdedExpr, function: &str, args: Vec<IdedExpr>) -> IdedExpr {
        self.node(Expr::Call(CallExpr {
            func_name: function.to_owned(),
            target: Some(Box::new(target)),
            args,
        }))
    }

    /// Returns a loop over an empty list, which binds a variable.
    fn bound(&self, name: &str, value: IdedExpr, result: IdedExpr) -> IdedExpr {
        self.node(Expr::Comprehension(Box::new(ComprehensionExpr {
            iter_range: self.list(Vec::new()),
            iter_var: "#unused".to_owned(),
            iter_var2: None,
            accu_var: name.to_owned(),
            accu_init: value,
            loop_cond: self.boolean(false),
            loop_step: self.name(name),
            result,
        })))
    }

    fn optional(
        &self,
        target: &IdedExpr,
        variable_node: &IdedExpr,
        body: &IdedExpr,
        wrap: bool,
    ) -> Result<Expr, String> {
        let variable = variable_name(variable_node)?;
        if size(target) > MAX_TARGET {
            return Err("the target of optMap is too large".to_owned());
        }
        let value = self.call_on(target.clone(), "value", Vec::new());
        let mut found = self.bound(variable, value, body.clone());
        let optional = || self.name("optional");
        if wrap {
            found = self.call_on(optional(), "of", vec![found]);
        }
        let choice = self.call(
            operators::CONDITIONAL,
            vec![
                self.call_on(target.clone(), "hasValue", Vec::new()),
                found,
                self.call_on(optional(), "none", Vec::new()),
            ],
        );
        Ok(choice.expr)
    }

    fn sort_by(
        &self,
        target: &IdedExpr,
        variable: &IdedExpr,
        key: &IdedExpr,
    ) -> Result<Expr, String> {
        if matches!(
            target.expr,
            Expr::Literal(_) | Expr::Map(_) | Expr::Struct(_)
        ) {
            return Err("sortBy needs a list".to_owned());
        }
        let variable = variable_name(variable)?;
        let collected = self.name(RESULT);
        let step = self.call(
            operators::ADD,
            vec![collected, self.list(vec![key.clone()])],
        );
        let keys = self.node(Expr::Comprehension(Box::new(ComprehensionExpr {
            iter_range: self.name(SORTED),
            iter_var: variable.to_owned(),
            iter_var2: None,
            accu_var: RESULT.to_owned(),
            accu_init: self.list(Vec::new()),
            loop_cond: self.boolean(true),
            loop_step: step,
            result: self.name(RESULT),
        })));
        let sorted = self.call_on(self.name(SORTED), SORT, vec![keys]);
        Ok(self.bound(SORTED, target.clone(), sorted).expr)
    }

    fn two_variables(
        &self,
        target: &IdedExpr,
        first: &IdedExpr,
        second: &IdedExpr,
        kind: Loop<'_>,
    ) -> Result<Expr, String> {
        let key = variable_name(first)?;
        let value = variable_name(second)?;
        if key == value {
            return Err(format!("duplicate variable name: {key}"));
        }
        let result = || self.name(RESULT);
        let always = || self.boolean(true);
        let insert = |mut entry: Vec<IdedExpr>| {
            entry.insert(0, result());
            self.call_on(self.name("cel"), INSERT, entry)
        };
        let none = || self.list(Vec::new());
        let empty = || self.node(Expr::Map(MapExpr::default()));
        let (init, condition, step, filter) = match kind {
            Loop::All(body) => (
                self.boolean(true),
                self.call(operators::NOT_STRICTLY_FALSE, vec![result()]),
                self.call(operators::LOGICAL_AND, vec![result(), body.clone()]),
                None,
            ),
            Loop::Exists(body) => {
                let not = self.call(operators::LOGICAL_NOT, vec![result()]);
                (
                    self.boolean(false),
                    self.call(operators::NOT_STRICTLY_FALSE, vec![not]),
                    self.call(operators::LOGICAL_OR, vec![result(), body.clone()]),
                    None,
                )
            }
            Loop::ExistsOne(body) => {
                let more = self.call(operators::ADD, vec![result(), self.number(1)]);
                (self.number(0), always(), more, Some(body))
            }
            Loop::List(filter, body) => {
                let more = vec![result(), self.list(vec![body.clone()])];
                (none(), always(), self.call(operators::ADD, more), filter)
            }
            Loop::Map(filter, body) => {
                let entry = vec![self.name(key), body.clone()];
                (empty(), always(), insert(entry), filter)
            }
            Loop::Entries(filter, body) => (empty(), always(), insert(vec![body.clone()]), filter),
        };
        let step = match filter {
            Some(filter) => self.call(operators::CONDITIONAL, vec![filter.clone(), step, result()]),
            None => step,
        };
        let found = match kind {
            Loop::ExistsOne(_) => self.call(operators::EQUALS, vec![result(), self.number(1)]),
            _ => result(),
        };
        Ok(Expr::Comprehension(Box::new(ComprehensionExpr {
            iter_range: target.clone(),
            iter_var: key.to_owned(),
            iter_var2: Some(value.to_owned()),
            accu_var: RESULT.to_owned(),
            accu_init: init,
            loop_cond: condition,
            loop_step: step,
            result: found,
        })))
    }
}
