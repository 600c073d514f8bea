//! The variables and indexes that an expression uses.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{EntryExpr, Expr, operators};

/// The uses of a compiled expression.
pub(crate) struct Uses<'e>(pub(super) &'e IdedExpr);

impl<'e> Uses<'e> {
    /// Reports whether a variable is used.
    pub(crate) fn variable(&self, variable: &str) -> bool {
        let mut found = false;
        visit(self.0, &mut |e| {
            found |=
                matches!(&e.expr, Expr::Ident(name) if name.trim_start_matches('.') == variable);
        });
        found
    }

    /// Returns the fields that are selected of a variable, and of these fields, outermost last.
    pub(crate) fn paths(&self, variable: &str) -> Vec<Vec<&'e str>> {
        fn path<'p>(e: &'p IdedExpr, variable: &str) -> Option<Vec<&'p str>> {
            match &e.expr {
                Expr::Ident(name) if name == variable => Some(Vec::new()),
                Expr::Select(select) => {
                    let mut steps = path(&select.operand, variable)?;
                    steps.push(&select.field);
                    Some(steps)
                }
                _ => None,
            }
        }
        let mut all = Vec::new();
        visit(self.0, &mut |e| all.extend(path(e, variable)));
        all
    }

    /// Reports whether a list or map is indexed.
    pub(crate) fn indexes(&self) -> bool {
        let mut found = false;
        visit(self.0, &mut |e| {
            found |= matches!(&e.expr, Expr::Call(c) if [operators::INDEX, operators::OPT_INDEX].contains(&c.func_name.as_str()));
        });
        found
    }
}

/// Calls `callback` for an expression and all its subexpressions.
pub(super) fn visit<'e>(e: &'e IdedExpr, callback: &mut dyn FnMut(&'e IdedExpr)) {
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
