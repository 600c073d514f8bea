//! Makes a checked expression ready to run: loops count their steps, and what was found out when it was checked is
//! put in its place.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, Expr, ListExpr, LiteralValue, operators,
};
use kube_cel::cel::{Context, ExecutionError, IdedExpr, Value};

use super::check::{Special, callee, is_type_name, qualified};
use super::functions::{
    ALIKE, ALL, AT, BOTH, EITHER, ENTRIES, EQUAL, EXISTS, FOUND, JOIN, STEP, WITHIN,
};
use super::macros::children;
use crate::schema::ListType;

/// One key and its value; no expression of a user can have this name.
const ENTRY: &str = "@entry";

/// Makes an expression ready; none if something in it cannot be run. `special` is what its types make of it.
pub(super) fn prepared(
    mut root: IdedExpr,
    known: &Context<'static>,
    special: &BTreeMap<u64, Special>,
) -> Option<IdedExpr> {
    let mut prepare = Prepare {
        known,
        special,
        bound: Vec::new(),
        runs: true,
    };
    prepare.node(&mut root);
    prepare.runs.then_some(root)
}

struct Prepare<'e> {
    known: &'e Context<'static>,
    special: &'e BTreeMap<u64, Special>,
    /// The variables of the loops around.
    bound: Vec<String>,
    /// False if something was found that cannot be run.
    runs: bool,
}

impl Prepare<'_> {
    fn node(&mut self, e: &mut IdedExpr) {
        self.name(e);
        match &mut e.expr {
            Expr::Comprehension(c) => self.comprehension(c),
            Expr::Call(call) => {
                let at = e.id;
                if let Some(instead) = self.call(at, call) {
                    e.expr = instead;
                }
            }
            Expr::Struct(_) | Expr::Unspecified => self.runs = false,
            Expr::Select(select) => {
                self.node(&mut select.operand);
                let Some(Special::Field { optional, reserved }) = self.special.get(&e.id) else {
                    return;
                };
                if *reserved {
                    select.field = super::escape(&select.field);
                }
                if *optional && !select.test {
                    let operand = std::mem::take(select.operand.as_mut());
                    let field = std::mem::take(&mut select.field).into();
                    let field = literal(LiteralValue::String(field));
                    e.expr = self::call(operators::OPT_INDEX, vec![operand, field]).expr;
                }
            }
            _ => children(e, &mut |child| self.node(child)),
        }
    }

    /// Names of types are one name, dots or not, and a dot before a name says no more than the name.
    fn name(&self, e: &mut IdedExpr) {
        let local = |name: &str| self.bound.iter().any(|b| b == name);
        match &mut e.expr {
            Expr::Ident(name) if name.starts_with('.') => *name = name.split_off(1),
            Expr::Select(_) => {
                let first = |name: &str| name.split('.').next().map(str::to_owned);
                if let Some(name) = qualified(e).filter(|name| is_type_name(name))
                    && !first(&name).is_some_and(|first| local(&first))
                {
                    e.expr = Expr::Ident(name);
                }
            }
            _ => {}
        }
    }

    fn call(&mut self, at: u64, call: &mut CallExpr) -> Option<Expr> {
        if call.func_name == operators::OPT_SELECT {
            // An absent field is none, not an error, as with an absent key.
            operators::OPT_INDEX.clone_into(&mut call.func_name);
            if let (Some(Special::Field { reserved: true, .. }), [_, field]) =
                (self.special.get(&at), call.args.as_mut_slice())
                && let Expr::Literal(LiteralValue::String(name)) = &field.expr
            {
                let name = super::escape(name.inner());
                *field = literal(LiteralValue::String(name.into()));
            }
        }
        if call.func_name.starts_with('.') {
            call.func_name = call.func_name.split_off(1);
        }
        let (name, target) = callee(call);
        let on_target = target.is_some();
        let is_operator = name.starts_with(['_', '!', '-', '@']);
        if !is_operator && !has_function(self.known, &name) {
            self.runs = false;
        }
        if let Some(target) = call.target.as_mut().filter(|_| on_target) {
            self.node(target);
        }
        call.args.iter_mut().for_each(|a| self.node(a));
        self.operator(at, call)
    }

    /// What an operator is on these types.
    fn operator(&self, at: u64, call: &mut CallExpr) -> Option<Expr> {
        let outweighing = match call.func_name.as_str() {
            operators::LOGICAL_AND => Some(BOTH),
            operators::LOGICAL_OR => Some(EITHER),
            _ => None,
        };
        if let Some(function) = outweighing {
            function.clone_into(&mut call.func_name);
            return None;
        }
        let how = match self.special.get(&at)? {
            Special::Mixed => return by_value(call),
            Special::Joined(how) => how,
            Special::Swapped => {
                call.args.reverse();
                return None;
            }
            Special::Field { .. } => return None,
        };
        let function = match call.func_name.as_str() {
            operators::ADD => JOIN,
            operators::EQUALS | operators::NOT_EQUALS => ALIKE,
            _ => return None,
        };
        let keys: &[String] = match how.as_ref() {
            ListType::Map(keys) => keys,
            _ => &[],
        };
        let keys = keys
            .iter()
            .map(|key| literal(LiteralValue::String(super::escape(key).into())));
        let mut args = std::mem::take(&mut call.args);
        args.push(ided(Expr::List(ListExpr::new(keys.collect()))));
        let found = self::call(function, args);
        Some(if call.func_name == operators::NOT_EQUALS {
            self::call(operators::LOGICAL_NOT, vec![found]).expr
        } else {
            found.expr
        })
    }

    fn comprehension(&mut self, c: &mut ComprehensionExpr) {
        self.node(&mut c.iter_range);
        self.node(&mut c.accu_init);
        let before = self.bound.len();
        self.bound.extend([c.iter_var.clone(), c.accu_var.clone()]);
        self.bound.extend(c.iter_var2.clone());
        for part in [&mut c.loop_cond, &mut c.loop_step, &mut c.result] {
            self.node(part);
        }
        self.bound.truncate(before);
        let outweighing = match &mut c.loop_step.expr {
            Expr::Call(step) if decides(step, BOTH, &c.accu_var) => Some((step, ALL)),
            Expr::Call(step) if decides(step, EITHER, &c.accu_var) => Some((step, EXISTS)),
            _ => None,
        };
        if let Some((step, function)) = outweighing {
            function.clone_into(&mut step.func_name);
            c.result = self::call(FOUND, vec![std::mem::take(&mut c.result)]);
        }
        let condition = std::mem::take(&mut c.loop_cond);
        c.loop_cond = call(
            operators::LOGICAL_AND,
            vec![call(STEP, Vec::new()), condition],
        );
        if let Some(second) = c.iter_var2.take() {
            let part = |i: i64| {
                let index = literal(LiteralValue::Int(i.into()));
                call(operators::INDEX, vec![named(ENTRY), index])
            };
            let first = std::mem::replace(&mut c.iter_var, ENTRY.to_owned());
            let step = std::mem::take(&mut c.loop_step);
            c.loop_step = bound(first, part(0), bound(second, part(1), step));
            let range = std::mem::take(&mut c.iter_range);
            c.iter_range = call(ENTRIES, vec![range]);
        }
    }
}

/// Whether a step of a loop is this function of what was found so far and something else.
fn decides(step: &CallExpr, function: &str, accumulated: &str) -> bool {
    let first = step.args.first().map(|first| &first.expr);
    step.func_name == function && matches!(first, Some(Expr::Ident(name)) if name == accumulated)
}

/// An operator that compares by value.
fn by_value(call: &mut CallExpr) -> Option<Expr> {
    let function = match call.func_name.as_str() {
        operators::EQUALS | operators::NOT_EQUALS => EQUAL,
        operators::IN => WITHIN,
        operators::INDEX => AT,
        _ => return None,
    };
    let found = self::call(function, std::mem::take(&mut call.args));
    Some(if call.func_name == operators::NOT_EQUALS {
        self::call(operators::LOGICAL_NOT, vec![found]).expr
    } else {
        found.expr
    })
}

/// A loop over nothing, which binds a variable.
fn bound(name: String, value: IdedExpr, result: IdedExpr) -> IdedExpr {
    ided(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: ided(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: "@unused".to_owned(),
        iter_var2: None,
        loop_cond: literal(LiteralValue::Boolean(false.into())),
        loop_step: named(&name),
        accu_var: name,
        accu_init: value,
        result,
    })))
}

/// Whether there is a function of this name; calling it tells, as nothing else does.
pub(super) fn has_function(known: &Context<'_>, name: &str) -> bool {
    let undeclared = ExecutionError::UndeclaredReference(Arc::new(name.to_owned()));
    Value::resolve(&call(name, Vec::new()), known) != Err(undeclared)
}

fn call(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    ided(Expr::Call(CallExpr {
        func_name: name.to_owned(),
        target: None,
        args,
    }))
}

fn named(name: &str) -> IdedExpr {
    ided(Expr::Ident(name.to_owned()))
}

fn literal(value: LiteralValue) -> IdedExpr {
    ided(Expr::Literal(value))
}

fn ided(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}
