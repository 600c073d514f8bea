//! The macros `optMap` and `optFlatMap` of CEL optionals, which the parser lacks.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, operators,
};

use super::names::is_reserved;
use super::tree::visit;

/// Maximum number of nodes of the target of `optMap`. The expansion contains the target twice, because the interpreter
/// cannot bind a CEL optional to a variable.
const MAX_TARGET: usize = 2000;

/// Expands these macros in an expression, and refuses reserved words as identifiers.
pub fn expand(e: &mut IdedExpr) -> Result<(), String> {
    let mut expanded = Ok(());
    children(e, &mut |child| {
        if expanded.is_ok() {
            expanded = expand(child);
        }
    });
    expanded?;
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
            ("optMap", [variable, body]) => optional(id, target, variable, body, true)?,
            ("optFlatMap", [variable, body]) => optional(id, target, variable, body, false)?,
            _ => return Ok(()),
        },
        _ => return Ok(()),
    };
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

/// Returns `target.hasValue() ? optional.of(body) : optional.none()`, with the value of the target bound to `variable`.
/// If `wrap` is false, the result of the body is already a CEL optional, and `optional.of` is left out.
fn optional(
    id: u64,
    target: &IdedExpr,
    variable: &IdedExpr,
    body: &IdedExpr,
    wrap: bool,
) -> Result<Expr, String> {
    let node = |expr: Expr| IdedExpr { id, expr };
    let call_on = |target: IdedExpr, function: &str, args: Vec<IdedExpr>| {
        node(Expr::Call(CallExpr {
            func_name: function.to_owned(),
            target: Some(Box::new(target)),
            args,
        }))
    };
    let Expr::Ident(name) = &variable.expr else {
        return Err("the variable of a macro must be a simple name".to_owned());
    };
    if size(target) > MAX_TARGET {
        return Err("the target of optMap or optFlatMap is too large".to_owned());
    }
    // A loop over an empty list only binds the variable.
    let mut found = node(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: node(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: "#unused".to_owned(),
        iter_var2: None,
        accu_var: name.clone(),
        accu_init: call_on(target.clone(), "value", Vec::new()),
        loop_cond: node(Expr::Literal(LiteralValue::Boolean(false.into()))),
        loop_step: variable.clone(),
        result: body.clone(),
    })));
    let optional = || node(Expr::Ident("optional".to_owned()));
    if wrap {
        found = call_on(optional(), "of", vec![found]);
    }
    let has_value = call_on(target.clone(), "hasValue", Vec::new());
    Ok(Expr::Call(CallExpr {
        func_name: operators::CONDITIONAL.to_owned(),
        target: None,
        args: vec![has_value, found, call_on(optional(), "none", Vec::new())],
    }))
}
