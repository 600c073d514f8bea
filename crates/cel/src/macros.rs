//! The macros that the parser lacks: `optMap` and `optFlatMap` of CEL optionals, and `cel.bind`.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, Expr, ListExpr, LiteralValue, operators,
};

use super::names::is_reserved;
use super::tree::{children, children_mut};

/// Maximum number of nodes of the target of `optMap`. The expansion contains the target twice, because the interpreter
/// cannot bind a CEL optional to a variable.
const MAX_TARGET: usize = 2000;

/// Expands these macros in an expression, and refuses reserved words as identifiers.
pub(crate) fn expand(e: &mut IdedExpr) -> Result<(), String> {
    for child in children_mut(&mut e.expr) {
        expand(child)?;
    }
    let id = e.id;
    e.expr = match &e.expr {
        Expr::Ident(name) if is_reserved(name) => {
            return Err(format!("reserved identifier: {name}"));
        }
        Expr::Call(CallExpr {
            func_name,
            target: Some(target),
            args,
        }) => match (func_name.as_str(), args.as_slice()) {
            ("optMap", [variable, body]) => optional(id, target, variable, body, Body::Value)?,
            ("optFlatMap", [variable, body]) => {
                optional(id, target, variable, body, Body::Optional)?
            }
            _ => return Ok(()),
        },
        _ => return Ok(()),
    };
    Ok(())
}

/// Expands the macro `cel.bind` in an expression.
pub(crate) fn expand_bindings(e: &mut IdedExpr) -> Result<(), String> {
    for child in children_mut(&mut e.expr) {
        expand_bindings(child)?;
    }
    let Expr::Call(CallExpr {
        func_name,
        target: Some(target),
        args,
    }) = &e.expr
    else {
        return Ok(());
    };
    let is_cel = matches!(&target.expr, Expr::Ident(name) if name == "cel");
    if let ("bind", true, [variable, value, body]) = (func_name.as_str(), is_cel, args.as_slice()) {
        e.expr = bind(e.id, variable, value.clone(), body)?;
    }
    Ok(())
}

/// Returns the value of `body` with a variable.
fn bind(id: u64, variable: &IdedExpr, value: IdedExpr, body: &IdedExpr) -> Result<Expr, String> {
    let node = |expr: Expr| IdedExpr { id, expr };
    let Expr::Ident(name) = &variable.expr else {
        return Err("the variable of a macro must be a simple name".to_owned());
    };
    // A loop over an empty list only binds the variable.
    Ok(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: node(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: "#unused".to_owned(),
        iter_var2: None,
        accu_var: name.clone(),
        accu_init: value,
        loop_cond: node(Expr::Literal(LiteralValue::Boolean(false.into()))),
        loop_step: variable.clone(),
        result: body.clone(),
    })))
}

/// Returns the number of nodes of an expression.
fn size(e: &IdedExpr) -> usize {
    1 + children(&e.expr).into_iter().map(size).sum::<usize>()
}

/// The result of the body of a macro.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    Value,
    /// A CEL optional.
    Optional,
}

/// Returns `target.hasValue() ? optional.of(body) : optional.none()`, with the value of the target bound to `variable`.
/// If the result of the body is already a CEL optional, `optional.of` is left out.
fn optional(
    id: u64,
    target: &IdedExpr,
    variable: &IdedExpr,
    body: &IdedExpr,
    result: Body,
) -> Result<Expr, String> {
    let node = |expr: Expr| IdedExpr { id, expr };
    let call_on = |target: IdedExpr, function: &str, args: Vec<IdedExpr>| {
        node(Expr::Call(CallExpr {
            func_name: function.to_owned(),
            target: Some(Box::new(target)),
            args,
        }))
    };
    if size(target) > MAX_TARGET {
        return Err("the target of optMap or optFlatMap is too large".to_owned());
    }
    let value = call_on(target.clone(), "value", Vec::new());
    let mut found = node(bind(id, variable, value, body)?);
    let optional = || node(Expr::Ident("optional".to_owned()));
    if result == Body::Value {
        found = call_on(optional(), "of", vec![found]);
    }
    let has_value = call_on(target.clone(), "hasValue", Vec::new());
    Ok(Expr::Call(CallExpr {
        func_name: operators::CONDITIONAL.to_owned(),
        target: None,
        args: vec![has_value, found, call_on(optional(), "none", Vec::new())],
    }))
}
