//! Whether the parts of an expression fit together: every mistake that can be told before a rule runs.
//!
//! Each node is passed a type, from those of the variables up; what cannot be known is anything, and is checked when
//! the rule runs. It must accept whatever a kube-apiserver accepts.

mod calls;
pub(super) mod library;
mod literals;
mod unify;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, MapExpr, SelectExpr,
    operators,
};

use super::syntax::Syntax;
use super::types::CelType;
use super::values::{escape, is_reserved};
use crate::schema::ListType;
pub(super) use calls::callee;
pub(super) use library::Signature;
use literals::Literals;
use unify::{Known, most_general};

/// What is known of an expression without mistakes.
#[derive(Debug)]
pub(crate) struct Checked<'a> {
    /// The type of its value.
    pub(crate) gives: CelType<'a>,
    /// What is not done as the words alone say, by node.
    pub(crate) special: BTreeMap<u64, Special>,
    /// What was found out about each node.
    pub(super) facts: Facts<'a>,
}

/// The types of nodes, and the ways in which functions are called; nodes by where they are.
#[derive(Debug, Default)]
pub(super) struct Facts<'a> {
    types: HashMap<usize, CelType<'a>>,
    calls: HashMap<usize, Vec<&'static Signature>>,
}

impl<'a> Facts<'a> {
    /// The type of a node.
    pub(super) fn of(&self, node: usize) -> CelType<'a> {
        self.types.get(&node).cloned().unwrap_or(CelType::Dyn)
    }

    /// The signatures that a call fits.
    pub(super) fn signatures(&self, node: usize) -> &[&'static Signature] {
        self.calls.get(&node).map(Vec::as_slice).unwrap_or_default()
    }
}

/// What types make of an operator or a selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Special {
    /// An operator on lists with a way of their own to be joined and compared, or on optional values.
    Joined(Arc<ListType>),
    /// A selected field.
    Field {
        /// Of an optional value.
        optional: bool,
        /// Its name is a word of the language, and was written as it is.
        reserved: bool,
    },
    /// A duration and a time: the time has to come first.
    Swapped,
    /// An operator on what may be numbers of different types.
    Mixed,
}

/// Checks an expression about `this` and what it was before, or says all that is wrong in the words of the CEL
/// compiler.
pub(crate) fn check<'a>(
    syntax: &Syntax,
    this: &CelType<'a>,
    old: &CelType<'a>,
) -> Result<Checked<'a>, String> {
    check_with(syntax, &[("self", this), ("oldSelf", old)])
}

/// Checks an expression about these variables, or lists all that is wrong in the words of the CEL compiler.
pub(super) fn check_with<'a>(
    syntax: &Syntax,
    variables: &[(&str, &CelType<'a>)],
) -> Result<Checked<'a>, String> {
    syntax.with_room(|root| {
        let mut checker = Checker {
            variables,
            known: Known::default(),
            scope: Vec::new(),
            literals: Literals::default(),
            special: BTreeMap::new(),
            facts: Facts::default(),
            problems: Vec::new(),
        };
        let gives = checker.node(root);
        let gives = checker.known.settled(&gives);
        if checker.problems.is_empty() {
            checker.problems = checker.literals.problems(&checker.known);
        }
        if checker.problems.is_empty() {
            let mut facts = checker.facts;
            for of in facts.types.values_mut() {
                *of = checker.known.settled(of);
            }
            return Ok(Checked {
                gives,
                special: checker.special,
                facts,
            });
        }
        Err(syntax.said(checker.problems))
    })?
}

/// What is wrong, and with which node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) at: u64,
    pub(super) says: String,
}

struct Checker<'a, 't> {
    variables: &'t [(&'t str, &'t CelType<'a>)],
    known: Known<'a>,
    /// The variables of the loops around, innermost last.
    scope: Vec<(String, CelType<'a>)>,
    literals: Literals<'a>,
    special: BTreeMap<u64, Special>,
    facts: Facts<'a>,
    problems: Vec<Problem>,
}

impl<'a> Checker<'a, '_> {
    fn wrong(&mut self, at: u64, says: String) -> CelType<'a> {
        self.problems.push(Problem { at, says });
        CelType::Error
    }

    fn undeclared(&mut self, at: u64, name: &str) -> CelType<'a> {
        self.wrong(
            at,
            format!("undeclared reference to '{name}' (in container '')"),
        )
    }

    fn mismatch(&mut self, at: u64, expected: &CelType<'a>, found: &CelType<'a>) {
        self.wrong(at, mismatch(expected, found));
    }

    fn node(&mut self, e: &IdedExpr) -> CelType<'a> {
        let of = self.type_of(e);
        self.facts.types.insert(place(e), of.clone());
        of
    }

    fn type_of(&mut self, e: &IdedExpr) -> CelType<'a> {
        match &e.expr {
            Expr::Literal(literal) => of_literal(literal),
            Expr::Ident(name) => self
                .named(name)
                .unwrap_or_else(|| self.undeclared(e.id, name)),
            Expr::Select(select) => self.select(e, select),
            Expr::Call(call) if call.func_name == operators::OPT_SELECT => {
                self.optional_select(e, call)
            }
            Expr::Call(call) => self.call(e, call),
            Expr::List(list) => self.list(e.id, list),
            Expr::Map(map) => self.map(e.id, map),
            Expr::Comprehension(c) => self.comprehension(c),
            Expr::Struct(of) => self.undeclared(e.id, &of.type_name),
            Expr::Unspecified => CelType::Error,
        }
    }

    fn local(&self, name: &str) -> Option<&CelType<'a>> {
        let found = self.scope.iter().rev().find(|(n, _)| n == name);
        found.map(|(_, of)| of)
    }

    fn named(&self, name: &str) -> Option<CelType<'a>> {
        if let Some(local) = self.local(name) {
            return Some(local.clone());
        }
        let name = name.trim_start_matches('.');
        let known = self.variables.iter().find(|(known, _)| *known == name);
        match known {
            Some((_, of)) => Some((*of).clone()),
            None => library::type_named(name),
        }
    }

    fn select(&mut self, e: &IdedExpr, select: &SelectExpr) -> CelType<'a> {
        // The name of a type may have dots.
        if !select.test
            && let Some(name) = qualified(e)
            && self
                .local(name.split('.').next().unwrap_or_default())
                .is_none()
            && let Some(of) = library::type_named(&name)
        {
            return of;
        }
        let of = self.field(e.id, &select.operand, &select.field);
        if select.test { CelType::Bool } else { of }
    }

    fn optional_select(&mut self, e: &IdedExpr, call: &CallExpr) -> CelType<'a> {
        let [operand, field] = call.args.as_slice() else {
            return CelType::Error;
        };
        let Expr::Literal(LiteralValue::String(field)) = &field.expr else {
            return CelType::Error;
        };
        self.facts
            .calls
            .insert(place(e), vec![library::optional_select()]);
        match self.field(e.id, operand, field.inner()) {
            of @ CelType::Optional(_) => of,
            of => CelType::optional(of),
        }
    }

    /// The type of a field; that of an optional value's field is optional.
    fn field(&mut self, at: u64, operand: &IdedExpr, field: &str) -> CelType<'a> {
        let operand = self.node(operand);
        let operand = self.known.resolved(&operand);
        let (target, optional) = match &operand {
            CelType::Optional(of) => (of.as_ref(), true),
            of => (of, false),
        };
        let mut reserved = false;
        let of = match target {
            CelType::Map(_, value) => value.as_ref().clone(),
            CelType::Object(object) => match object.field(field) {
                Some(of) => of,
                None if is_reserved(field) => {
                    reserved = true;
                    object
                        .field(&escape(field))
                        .unwrap_or_else(|| self.undefined(at, field))
                }
                None => self.undefined(at, field),
            },
            CelType::Named(name) if library::is_declared_as_object(name) => {
                self.wrong(at, format!("unexpected failed resolution of '{name}'"))
            }
            CelType::Dyn | CelType::Error => CelType::Dyn,
            CelType::Variable(_) => {
                self.known.fits(&CelType::Dyn, target);
                CelType::Dyn
            }
            of => {
                self.wrong(at, format!("type '{of}' does not support field selection"));
                CelType::Dyn
            }
        };
        if optional || reserved {
            let how = Special::Field { optional, reserved };
            self.special.insert(at, how);
        }
        if optional { CelType::optional(of) } else { of }
    }

    fn undefined(&mut self, at: u64, field: &str) -> CelType<'a> {
        self.wrong(at, format!("undefined field '{field}'"))
    }

    fn list(&mut self, at: u64, list: &ListExpr) -> CelType<'a> {
        let mut joint: Option<CelType<'a>> = None;
        let mut elements = Vec::with_capacity(list.elements.len());
        for (i, element) in list.elements.iter().enumerate() {
            let found = self.node(element);
            let of = if list.optional_indices.contains(&i) {
                self.unwrapped(element.id, found)
            } else {
                found
            };
            joint = Some(self.joint(joint, &of));
            elements.push((element.id, of));
        }
        self.literals.list(at, elements);
        CelType::list(joint.unwrap_or_else(|| self.known.fresh()))
    }

    fn map(&mut self, at: u64, map: &MapExpr) -> CelType<'a> {
        let (mut keys, mut values) = (None, None);
        let mut entries = Vec::with_capacity(map.entries.len());
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else {
                continue;
            };
            let key = self.node(&entry.key);
            keys = Some(self.joint(keys, &key));
            let found = self.node(&entry.value);
            let value = if entry.optional {
                self.unwrapped(entry.value.id, found)
            } else {
                found
            };
            values = Some(self.joint(values, &value));
            entries.push([(entry.key.id, key), (entry.value.id, value)]);
        }
        self.literals.map(at, entries);
        CelType::map(
            keys.unwrap_or_else(|| self.known.fresh()),
            values.unwrap_or_else(|| self.known.fresh()),
        )
    }

    /// What is in an optional element.
    fn unwrapped(&mut self, at: u64, found: CelType<'a>) -> CelType<'a> {
        match found {
            CelType::Optional(of) => of.as_ref().clone(),
            CelType::Dyn => CelType::Dyn,
            of => {
                self.mismatch(at, &CelType::optional(of.clone()), &of);
                of
            }
        }
    }

    /// The type of elements of these types.
    fn joint(&mut self, before: Option<CelType<'a>>, next: &CelType<'a>) -> CelType<'a> {
        match before {
            None => next.clone(),
            Some(before) if self.known.fits(&before, next) => most_general(&before, next),
            Some(_) => CelType::Dyn,
        }
    }

    fn comprehension(&mut self, c: &ComprehensionExpr) -> CelType<'a> {
        let range = self.node(&c.iter_range);
        let accumulated = self.node(&c.accu_init);
        let range = self.known.resolved(&range);
        let (first, second) = match &range {
            CelType::List(of, _) if c.iter_var2.is_some() => (CelType::Int, of.as_ref().clone()),
            CelType::List(of, _) => (of.as_ref().clone(), CelType::Error),
            CelType::Map(key, value) => (key.as_ref().clone(), value.as_ref().clone()),
            CelType::Dyn | CelType::Error | CelType::Variable(_) => {
                self.known.fits(&CelType::Dyn, &range);
                (CelType::Dyn, CelType::Dyn)
            }
            _ => {
                let says = format!(
                    "expression of type '{range}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.wrong(c.iter_range.id, says);
                (CelType::Error, CelType::Error)
            }
        };
        let outside = self.scope.len();
        self.scope.push((c.accu_var.clone(), accumulated.clone()));
        let inside = self.scope.len();
        self.scope.push((c.iter_var.clone(), first));
        if let Some(name) = &c.iter_var2 {
            self.scope.push((name.clone(), second));
        }
        for (part, expected) in [(&c.loop_cond, &CelType::Bool), (&c.loop_step, &accumulated)] {
            let found = self.node(part);
            if !self.known.fits(expected, &found) {
                self.mismatch(part.id, expected, &found);
            }
        }
        self.scope.truncate(inside);
        let result = self.node(&c.result);
        self.scope.truncate(outside);
        self.known.resolved(&result)
    }
}

fn place(e: &IdedExpr) -> usize {
    std::ptr::from_ref(e).addr()
}

fn mismatch(expected: &CelType<'_>, found: &CelType<'_>) -> String {
    format!("expected type '{expected}' but found '{found}'")
}

/// The name `a.b.c`, if the expression is nothing else.
pub(super) fn qualified(e: &IdedExpr) -> Option<String> {
    match &e.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) if !select.test => {
            Some(format!("{}.{}", qualified(&select.operand)?, select.field))
        }
        _ => None,
    }
}

/// Whether a dotted name is that of a type.
pub(super) fn is_type_name(name: &str) -> bool {
    library::type_named(name).is_some()
}

fn of_literal(literal: &LiteralValue) -> CelType<'static> {
    match literal {
        LiteralValue::Boolean(_) => CelType::Bool,
        LiteralValue::Bytes(_) => CelType::Bytes,
        LiteralValue::Double(_) => CelType::Double,
        LiteralValue::Int(_) => CelType::Int,
        LiteralValue::Null => CelType::Null,
        LiteralValue::String(_) => CelType::String,
        LiteralValue::UInt(_) => CelType::Uint,
    }
}
