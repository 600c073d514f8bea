//! The variables, fields and indexes that an expression uses.

use std::collections::BTreeSet;

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{EntryExpr, Expr, operators};

use super::functions::AT;

/// The uses of a compiled expression.
pub(crate) struct Uses<'e>(pub(super) &'e IdedExpr);

impl Uses<'_> {
    /// Reports whether a variable is used.
    pub(crate) fn variable(&self, variable: &str) -> bool {
        let mut found = false;
        visit(self.0, &mut |e| {
            found |=
                matches!(&e.expr, Expr::Ident(name) if name.trim_start_matches('.') == variable);
        });
        found
    }

    /// Reports whether a list or map is indexed.
    pub(crate) fn indexes(&self) -> bool {
        let mut found = false;
        visit(self.0, &mut |e| {
            found |= matches!(&e.expr, Expr::Call(c) if [operators::INDEX, operators::OPT_INDEX, AT].contains(&c.func_name.as_str()));
        });
        found
    }

    /// Returns the fields selected of these variables, as CEL spells them. Returns `None` if a variable is used as a whole.
    pub(crate) fn fields_of(&self, variables: &[&str]) -> Option<BTreeSet<String>> {
        let is = |e: &IdedExpr| matches!(&e.expr, Expr::Ident(name) if variables.contains(&name.as_str()));
        let (mut uses, mut selections, mut fields) = (0, 0, BTreeSet::new());
        visit(self.0, &mut |e| {
            uses += usize::from(is(e));
            if let Expr::Select(select) = &e.expr
                && is(&select.operand)
            {
                selections += 1;
                fields.insert(select.field.clone());
            }
        });
        (uses == selections).then_some(fields)
    }
}

/// Calls `callback` for an expression and all its subexpressions.
pub(super) fn visit(e: &IdedExpr, callback: &mut dyn FnMut(&IdedExpr)) {
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

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;

    #[test]
    fn used_fields_are_known_unless_an_object_is_used_as_a_whole() {
        let fields = |source: &str| {
            let (root, _) = parse(source).unwrap();
            Uses(&root).fields_of(&["self", "oldSelf"])
        };
        assert_eq!(
            fields("has(self.a) || self.b.c > oldSelf.d"),
            Some(["a", "b", "d"].map(str::to_owned).into())
        );
        assert_eq!(fields("self == oldSelf"), None);
        assert_eq!(fields("self.a == 1 && self['b'] == 2"), None);
    }
}
