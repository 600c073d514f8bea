//! Conversions and patterns that are written in a rule as they are, and that must fail: a kube-apiserver evaluates
//! these when it takes a definition.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{CallExpr, Expr, LiteralValue, operators};

use super::expression;
use super::syntax::Syntax;
use super::uses::visit;
use crate::schema::pattern;

const CONVERSIONS: [&str; 8] = [
    "bool",
    "bytes",
    "double",
    "duration",
    "int",
    "string",
    "timestamp",
    "uint",
];

/// Why an expression cannot be made ready, if so.
pub(crate) fn failing(syntax: &Syntax) -> Option<String> {
    let find = |root: &IdedExpr| {
        let mut first = None;
        visit(root, &mut |e| {
            if first.is_none()
                && let Expr::Call(call) = &e.expr
            {
                first = fails(e, call);
            }
        });
        first
    };
    // Where there is no room for it, it was refused before.
    syntax.with_room(find).ok().flatten()
}

fn fails(e: &IdedExpr, call: &CallExpr) -> Option<String> {
    if is_constant(e) {
        return expression::constant(e).err();
    }
    let patterns = matches!(call.func_name.as_str(), "find" | "findAll" | "matches");
    let written = patterns.then(|| call.args.first().map(plain)).flatten()?;
    match &written.expr {
        Expr::Literal(LiteralValue::String(text)) => pattern::read(text.inner()).err(),
        _ => None,
    }
}

/// Whether it is a conversion of something that is written down.
fn is_constant(e: &IdedExpr) -> bool {
    match &e.expr {
        Expr::Call(CallExpr {
            func_name,
            target: None,
            args,
        }) if CONVERSIONS.contains(&func_name.as_str()) => {
            matches!(args.as_slice(), [one] if is_written(plain(one)) || is_constant(plain(one)))
        }
        _ => false,
    }
}

/// Literals; negative ones, too.
fn is_written(e: &IdedExpr) -> bool {
    match &e.expr {
        Expr::Literal(_) => true,
        Expr::Call(call) if call.func_name == operators::NEGATE => {
            matches!(call.args.as_slice(), [one] if matches!(one.expr, Expr::Literal(_)))
        }
        _ => false,
    }
}

/// An expression without `dyn` around it.
fn plain(e: &IdedExpr) -> &IdedExpr {
    match &e.expr {
        Expr::Call(CallExpr {
            func_name,
            target: None,
            args,
        }) if func_name == "dyn" && args.len() == 1 => plain(&args[0]),
        _ => e,
    }
}
