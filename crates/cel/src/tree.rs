//! The search for variables and indexes that an expression uses, for example `oldSelf` in a transition rule.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{EntryExpr, Expr, operators};

/// The variables and indexes that a compiled expression uses.
pub struct Uses<'e>(pub &'e IdedExpr);

impl Uses<'_> {
    /// Reports whether the expression uses a variable.
    pub fn variable(&self, variable: &str) -> bool {
        let mut found = false;
        visit(self.0, &mut |e| {
            found |=
                matches!(&e.expr, Expr::Ident(name) if name.trim_start_matches('.') == variable);
        });
        found
    }

    /// Reports whether the expression indexes a list or map.
    pub fn indexes(&self) -> bool {
        let mut found = false;
        visit(self.0, &mut |e| {
            found |= matches!(&e.expr, Expr::Call(c) if [operators::INDEX, operators::OPT_INDEX].contains(&c.func_name.as_str()));
        });
        found
    }
}

/// Calls `callback` for an expression and all its subexpressions.
pub fn visit(e: &IdedExpr, callback: &mut dyn FnMut(&IdedExpr)) {
    callback(e);
    match &e.expr {
        Expr::Call(call) => {
            call.target.iter().for_each(|t| visit(t, callback));
            call.args.iter().for_each(|a| visit(a, callback));
        }
        Expr::Comprehension(c) => {
            for part in [
                &c.iter_range,
                &c.accu_init,
                &c.loop_cond,
                &c.loop_step,
                &c.result,
            ] {
                visit(part, callback);
            }
        }
        Expr::List(list) => list.elements.iter().for_each(|i| visit(i, callback)),
        Expr::Map(map) => {
            for entry in &map.entries {
                if let EntryExpr::MapEntry(entry) = &entry.expr {
                    visit(&entry.key, callback);
                    visit(&entry.value, callback);
                }
            }
        }
        Expr::Select(select) => visit(&select.operand, callback),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => {}
    }
}
