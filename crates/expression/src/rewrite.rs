//! Rewriting of parsed expressions: loops count their iterations, and field selections do not copy the object. The
//! values of the expressions stay the same.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, LiteralValue, operators};

use super::functions::COUNT_ITERATION;

/// Makes every loop count its iterations, and every field selection borrow the field instead of copying the object.
pub(crate) fn rewrite(expr: &mut IdedExpr) {
    match &mut expr.expr {
        Expr::Call(call) => {
            if call.func_name == operators::OPT_SELECT {
                // The optional field `a.?b` becomes the optional key `a[?'b']`, which may be absent.
                operators::OPT_INDEX.clone_into(&mut call.func_name);
            }
            call.target.iter_mut().for_each(|target| rewrite(target));
            call.args.iter_mut().for_each(rewrite);
        }
        Expr::Comprehension(comprehension) => {
            for part in [
                &mut comprehension.iter_range,
                &mut comprehension.accu_init,
                &mut comprehension.loop_cond,
                &mut comprehension.loop_step,
                &mut comprehension.result,
            ] {
                rewrite(part);
            }
            let condition = std::mem::take(&mut comprehension.loop_cond);
            comprehension.loop_cond = call(
                operators::LOGICAL_AND,
                vec![call(COUNT_ITERATION, Vec::new()), condition],
            );
        }
        Expr::List(list) => list.elements.iter_mut().for_each(rewrite),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    rewrite(&mut entry.key);
                    rewrite(&mut entry.value);
                }
            }
        }
        Expr::Select(select) => {
            rewrite(&mut select.operand);
            if !select.test {
                let operand = std::mem::take(&mut *select.operand);
                let field = IdedExpr {
                    id: 0,
                    expr: Expr::Literal(LiteralValue::String(select.field.as_str().into())),
                };
                *expr = call(operators::INDEX, vec![operand, field]);
            }
        }
        Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => {}
    }
}

fn call(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    IdedExpr {
        id: 0,
        expr: Expr::Call(CallExpr {
            func_name: name.to_owned(),
            target: None,
            args,
        }),
    }
}
