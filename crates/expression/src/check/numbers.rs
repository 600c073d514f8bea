//! The check that arithmetic does not mix whole numbers and decimals. CEL has no such operators, and scores are
//! decimals, so `100 - cluster.scores.NAME.value` would fail for every cluster.

use berth_cel::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};

use super::super::variables::{AGE, CLUSTER, SCORES};
use super::{Problem, field_access, problem};

/// The type of a number, if it is known before the evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Whole,
    Decimal,
}

const ARITHMETIC: [&str; 5] = [
    operators::ADD,
    operators::SUBSTRACT,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
];

/// Checks the operands of an arithmetic operator, and the default of an optional score.
pub(super) fn check_call(call: &CallExpr) -> Result<(), Problem> {
    let operands = match (call.func_name.as_str(), &call.target, call.args.as_slice()) {
        (operator, _, [left, right]) if ARITHMETIC.contains(&operator) => [left, right],
        ("orValue", Some(optional), [default]) => [&**optional, default],
        _ => return Ok(()),
    };
    let mixed = match operands.map(number) {
        [Some(left), Some(right)] => left != right,
        _ => false,
    };
    if !mixed {
        return Ok(());
    }
    let operator = call.func_name.trim_matches('_');
    let text = format!(
        "cannot apply {operator} to a whole number and a decimal, such as the value of a score: write a whole number as \
         100.0, or use double(…)"
    );
    Err(problem("", text))
}

fn number(expr: &IdedExpr) -> Option<Number> {
    if let Some((CLUSTER, path)) = field_access(expr) {
        return match path.as_slice() {
            [SCORES, _, "value"] => Some(Number::Decimal),
            [SCORES, _, AGE] => Some(Number::Whole),
            _ => None,
        };
    }
    match &expr.expr {
        Expr::Literal(LiteralValue::Int(_)) => Some(Number::Whole),
        Expr::Literal(LiteralValue::Double(_)) => Some(Number::Decimal),
        Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
            ("double", _) => Some(Number::Decimal),
            ("int" | "size", _) => Some(Number::Whole),
            ("orValue", [default]) => number(default),
            (operators::NEGATE, [operand]) => number(operand),
            (operator, [left, right]) if ARITHMETIC.contains(&operator) => {
                number(left).or_else(|| number(right))
            }
            (operators::CONDITIONAL, [_, left, right]) => number(left).or_else(|| number(right)),
            _ => None,
        },
        _ => None,
    }
}
