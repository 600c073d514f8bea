//! Which function a call means, which of its signatures fit, and what comes of it.

use std::sync::Arc;

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{CallExpr, operators};

use super::super::types::CelType;
use super::library::{self, Signature};
use super::{Checker, Special, place, qualified};
use crate::schema::ListType;

impl<'a> Checker<'a, '_> {
    pub(super) fn call(&mut self, e: &IdedExpr, call: &CallExpr) -> CelType<'a> {
        let at = e.id;
        let formats = call.func_name == "format";
        self.literals.enter(formats);
        let mut passed: Vec<CelType<'a>> = call.args.iter().map(|a| self.node(a)).collect();
        let (name, target) = callee(call);
        if let Some(target) = target {
            let target = self.node(target);
            passed.insert(0, target);
        }
        self.literals.leave(formats);
        let Some(signatures) = library::signatures(name.trim_start_matches('.')) else {
            return self.undeclared(at, &name);
        };
        self.literals.call(at, name.trim_start_matches('.'), call);
        self.resolve(e, &name, call, &passed, signatures, target.is_some())
    }

    fn resolve(
        &mut self,
        e: &IdedExpr,
        name: &str,
        call: &CallExpr,
        passed: &[CelType<'a>],
        signatures: &'static [Signature],
        member: bool,
    ) -> CelType<'a> {
        let at = e.id;
        if matches!(name, operators::LOGICAL_AND | operators::LOGICAL_OR) {
            self.facts
                .calls
                .insert(place(e), signatures.iter().collect());
            let mut gives = CelType::Bool;
            for (arg, of) in call.args.iter().zip(passed) {
                if !self.known.fits(of, &CelType::Bool) {
                    self.mismatch(arg.id, &CelType::Bool, of);
                    gives = CelType::Error;
                }
            }
            return gives;
        }
        let mut result: Option<CelType<'a>> = None;
        for signature in signatures.iter().filter(|s| s.member == member) {
            let fresh: Vec<CelType<'a>> = (0..signature.open).map(|_| self.known.fresh()).collect();
            let takes: Vec<CelType<'a>> = signature
                .takes
                .iter()
                .map(|of| instance(of, &fresh))
                .collect();
            if self.known.all_fit(passed, &takes) {
                let fitting = self.facts.calls.entry(place(e)).or_default();
                fitting.push(signature);
                let gives = self.known.resolved(&instance(&signature.gives, &fresh));
                result = Some(match result {
                    None => gives,
                    Some(first) if matches!(first, CelType::Dyn) || first.is(&gives) => first,
                    Some(_) => CelType::Dyn,
                });
            }
        }
        let Some(gives) = result else {
            let passed: Vec<CelType<'a>> = passed.iter().map(|of| self.known.settled(of)).collect();
            return self.wrong(at, no_overload(name, &passed, member));
        };
        self.operated(at, name, passed, gives)
    }

    /// Remembers what an operator does with these types; a joined list is of the type of its left side.
    fn operated(
        &mut self,
        at: u64,
        name: &str,
        passed: &[CelType<'a>],
        gives: CelType<'a>,
    ) -> CelType<'a> {
        const BY_VALUE: [&str; 4] = [
            operators::EQUALS,
            operators::NOT_EQUALS,
            operators::IN,
            operators::INDEX,
        ];
        let [left, right] = passed else {
            return gives;
        };
        if BY_VALUE.contains(&name)
            && [left, right]
                .map(|of| self.known.resolved(of))
                .iter()
                .any(CelType::is_loose)
        {
            self.special.insert(at, Special::Mixed);
        }
        if !matches!(
            name,
            operators::ADD | operators::EQUALS | operators::NOT_EQUALS
        ) {
            return gives;
        }
        match (self.known.resolved(left), gives) {
            (CelType::Duration, gives @ CelType::Timestamp) => {
                if matches!(self.known.resolved(right), CelType::Timestamp) {
                    self.special.insert(at, Special::Swapped);
                }
                gives
            }
            (CelType::Optional(_), gives) => {
                self.special.insert(at, Special::Joined(Arc::default()));
                gives
            }
            (CelType::List(_, how), gives) if *how != ListType::Atomic => {
                self.special.insert(at, Special::Joined(how.clone()));
                match gives {
                    CelType::List(of, _) => CelType::List(of, how),
                    gives => gives,
                }
            }
            (_, gives) => gives,
        }
    }
}

fn no_overload(name: &str, passed: &[CelType<'_>], member: bool) -> String {
    let (target, args) = match passed.split_first() {
        Some((target, args)) if member => (format!("{target}."), args),
        _ => (String::new(), passed),
    };
    let args: Vec<String> = args.iter().map(ToString::to_string).collect();
    let name = name.trim_start_matches('.');
    format!(
        "found no matching overload for '{name}' applied to '{target}({})'",
        args.join(", ")
    )
}

/// The function that is called, and on what: `optional.of` is one name, not a call on a variable.
pub(in crate::schema::rules) fn callee(call: &CallExpr) -> (String, Option<&IdedExpr>) {
    let Some(target) = call.target.as_deref() else {
        return (call.func_name.clone(), None);
    };
    if let Some(prefix) = qualified(target) {
        let name = format!("{prefix}.{}", call.func_name);
        if library::signatures(name.trim_start_matches('.')).is_some() {
            return (name, None);
        }
    }
    (call.func_name.clone(), Some(target))
}

/// A type of a signature, with these types for what it leaves open.
fn instance<'a>(of: &CelType<'a>, fresh: &[CelType<'a>]) -> CelType<'a> {
    let inner = |of: &CelType<'a>| Arc::new(instance(of, fresh));
    match of {
        CelType::Variable(letter) => fresh.get(*letter).cloned().unwrap_or(CelType::Dyn),
        CelType::List(of, how) => CelType::List(inner(of), how.clone()),
        CelType::Optional(of) => CelType::Optional(inner(of)),
        CelType::Type(Some(of)) => CelType::Type(Some(inner(of))),
        CelType::Map(key, value) => CelType::Map(inner(key), inner(value)),
        _ => of.clone(),
    }
}
