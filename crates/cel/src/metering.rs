//! Limits on the bytes that CEL expressions create and process. The interpreter itself limits nothing: three nested
//! `map` calls with `+` could create strings of a gigabyte.
//!
//! [`meter`] rewrites an expression once. Each call that creates or traverses values then becomes a call of [`METERED`].
//! This function evaluates the operands, prices the call before its execution, and charges the limits of the evaluation.
//! The values of the expression stay the same.

use std::collections::BTreeMap;

use kube_cel::cel::common::ast::{EntryExpr, Expr, LiteralValue, operators};
use kube_cel::cel::common::types::{CelBytes, CelInt, CelList, CelMap, CelOptional, CelString};
use kube_cel::cel::common::value::Val;
use kube_cel::cel::{Context, ExecutionError, FunctionContext, IdedExpr, Value};

use super::limits::{charge, fits};
use super::tree::{call, children_mut, ident};

/// The function that evaluates a metered call. Expressions of users cannot contain this name.
const METERED: &str = "@metered";
/// The function that limits the size of a variable. It returns true.
const SMALL: &str = "@small";
/// Functions whose results are one of their operands.
const FREE: [&str; 4] = ["or", "orValue", "value", "hasValue"];
/// The size of a value, in bytes, without its content.
const HEADER: u64 = 16;
/// The price of the compilation of one byte of a pattern.
const PATTERN: u64 = 200;

/// Adds the internal functions of metered expressions.
pub(crate) fn add_functions(context: &mut Context<'_>) {
    context.add_function(METERED, |call: &FunctionContext| metered(call));
    context.add_function(SMALL, |call: &FunctionContext| {
        let [variable] = call.args else {
            return Err(ExecutionError::NoSuchOverload);
        };
        fits(size(Value::resolve_val(variable, call.ptx)?.as_ref()))?;
        Ok(Value::Bool(true))
    });
}

/// Makes the calls, lists and maps of a compiled expression charge the limits.
pub(crate) fn meter(expression: &mut IdedExpr) {
    if let Expr::Comprehension(comprehension) = &mut expression.expr {
        for part in [
            &mut comprehension.iter_range,
            &mut comprehension.accu_init,
            &mut comprehension.loop_cond,
            &mut comprehension.result,
        ] {
            meter(part);
        }
        let accumulated = comprehension.accu_var.clone();
        if meter_step(&mut comprehension.loop_step, &accumulated) {
            let small = call(SMALL, vec![ident(accumulated)]);
            let condition = std::mem::take(&mut comprehension.loop_cond);
            comprehension.loop_cond = call(operators::LOGICAL_AND, vec![small, condition]);
        }
        return;
    }
    let is_metered = is_metered(&expression.expr);
    let mut operands = Vec::new();
    for operand in children_mut(&mut expression.expr) {
        meter(operand);
        if is_metered {
            let variable = ident(variable(operands.len()));
            operands.push(std::mem::replace(operand, variable));
        }
    }
    if is_metered {
        let template = std::mem::take(expression);
        operands.insert(0, template);
        *expression = call(METERED, operands);
    }
}

/// Meters the step of a loop. Reports whether the step appends to the accumulated list. The step then stays a plain
/// addition, because the interpreter would copy the list once more for a function.
fn meter_step(step: &mut IdedExpr, accumulated: &str) -> bool {
    if let Expr::Call(call) = &mut step.expr {
        match (call.func_name.as_str(), call.args.as_mut_slice()) {
            (operators::ADD, [list, appended]) if matches!(&list.expr, Expr::Ident(name) if name == accumulated) =>
            {
                match &mut appended.expr {
                    Expr::List(list) => list.elements.iter_mut().for_each(meter),
                    _ => meter(appended),
                }
                return true;
            }
            (operators::CONDITIONAL, [condition, yes, no]) => {
                meter(condition);
                let yes = meter_step(yes, accumulated);
                return meter_step(no, accumulated) || yes;
            }
            _ => {}
        }
    }
    meter(step);
    false
}

/// Reports whether an expression creates or traverses values. Operators other than `+` create no large values, and
/// lists and maps of literals are as large as their text.
fn is_metered(expression: &Expr) -> bool {
    let is_literal = |part: &IdedExpr| matches!(part.expr, Expr::Literal(_));
    match expression {
        Expr::Call(call) => {
            let name = call.func_name.as_str();
            let is_operator = name.starts_with(['_', '!', '-', '@']);
            name == operators::ADD && !call.args.iter().any(is_number)
                || !is_operator && !FREE.contains(&name)
        }
        Expr::List(list) => !list.elements.iter().all(is_literal),
        Expr::Map(map) => !map.entries.iter().all(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => is_literal(&entry.key) && is_literal(&entry.value),
            EntryExpr::StructField(_) => true,
        }),
        _ => false,
    }
}

fn is_number(expression: &IdedExpr) -> bool {
    matches!(
        &expression.expr,
        Expr::Literal(LiteralValue::Int(_) | LiteralValue::UInt(_) | LiteralValue::Double(_))
    )
}

fn variable(index: usize) -> String {
    format!("@{index}")
}

/// Evaluates the operands of a metered call, and the call if the budget suffices.
fn metered(call: &FunctionContext<'_, '_>) -> Result<Value, ExecutionError> {
    let Some((template, operands)) = call.args.split_first() else {
        return Err(ExecutionError::NoSuchOverload);
    };
    let mut variables = BTreeMap::new();
    let mut total = 0_u64;
    for (index, operand) in operands.iter().enumerate() {
        let value = Value::resolve_val(operand, call.ptx)?;
        let bytes = size(value.as_ref());
        charge(bytes)?;
        total = total.saturating_add(bytes);
        variables.insert(variable(index), value.into_owned());
    }
    let operand = |index| variables.get(&variable(index)).map(|value| &**value);
    charge(price(template, [operand(0), operand(1), operand(2)], total))?;
    let scope = Context::Child {
        parent: call.ptx,
        variables,
        resolver: None,
    };
    Value::resolve(template, &scope)
}

/// Returns the price of a call beyond the size of its operands: the size of the result, or the number of steps if this
/// number grows faster than the operands.
fn price(template: &IdedExpr, operands: [Option<&dyn Val>; 3], total: u64) -> u64 {
    let Expr::Call(call) = &template.expr else {
        return total;
    };
    let [first, second, third] = operands;
    let (text, other) = (length(first), length(second));
    let more = match call.func_name.as_str() {
        "replace" => (text / other.max(1) + 1).saturating_mul(length(third)),
        "join" => text.saturating_mul(other),
        "split" => (text / other.max(1) + 1).saturating_mul(4 * HEADER),
        "format" => first.map_or(0, precision),
        "lists.range" => match first.and_then(|value| value.downcast_ref::<CelInt>()) {
            Some(count) => u64::try_from(*count.inner())
                .unwrap_or(0)
                .saturating_mul(2 * HEADER),
            None => 0,
        },
        "indexOf" | "lastIndexOf" => text.saturating_mul(other) / 16,
        "distinct" => text.saturating_mul(text) / 4,
        "sets.contains" | "sets.equivalent" | "sets.intersects" => text.saturating_mul(other) / 4,
        "matches" => text.saturating_mul(other) / 32,
        "find" | "findAll" => {
            (text.saturating_mul(other) / 32).saturating_add(other.saturating_mul(PATTERN))
        }
        _ => 0,
    };
    total.saturating_add(more)
}

/// Returns the bytes of a text, or the number of items of a list or map.
fn length(value: Option<&dyn Val>) -> u64 {
    let Some(value) = value else {
        return 0;
    };
    let length = if let Some(text) = value.downcast_ref::<CelString>() {
        text.inner().len()
    } else if let Some(bytes) = value.downcast_ref::<CelBytes>() {
        bytes.inner().len()
    } else if let Some(list) = value.downcast_ref::<CelList>() {
        list.inner().len()
    } else if let Some(map) = value.downcast_ref::<CelMap>() {
        map.inner().len()
    } else {
        0
    };
    length as u64
}

/// Returns the sum of the precisions in a format, such as `%.9f`.
fn precision(format: &dyn Val) -> u64 {
    let Some(format) = format.downcast_ref::<CelString>() else {
        return 0;
    };
    let parts = format.inner().split("%.").skip(1);
    parts.fold(0, |sum: u64, part| {
        let end = part
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(part.len());
        let digits = &part[..end];
        let number = digits
            .parse()
            .unwrap_or(if digits.is_empty() { 0 } else { u64::MAX });
        sum.saturating_add(number)
    })
}

/// Returns the size of a value with all its parts.
fn size(value: &dyn Val) -> u64 {
    let parts: u64 = if let Some(list) = value.downcast_ref::<CelList>() {
        list.inner().iter().map(|item| size(&**item)).sum()
    } else if let Some(map) = value.downcast_ref::<CelMap>() {
        let entries = map.inner().iter();
        let sizes = entries.map(|(key, value)| 2 * HEADER + size(key.inner()) + size(&**value));
        sizes.sum()
    } else if let Some(optional) = value.downcast_ref::<CelOptional>() {
        optional.option().map_or(0, size)
    } else {
        length(Some(value))
    };
    HEADER + parts
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::compile::compile;
    use crate::functions::FUNCTIONS;
    use crate::limits::{Exceeded, Limits};
    use crate::parse::parse;

    fn run(source: &str, is_metered: bool) -> Result<Result<Value, ExecutionError>, Exceeded> {
        let mut root = compile(parse(source).unwrap(), &[], 1 << 20).unwrap().root;
        if is_metered {
            meter(&mut root);
        }
        let mut limits = Limits {
            steps: u64::MAX,
            bytes: 1 << 20,
            pattern: 1 << 20,
            deadline: Instant::now() + Duration::from_mins(1),
        };
        limits.run(|| Value::resolve(&root, &FUNCTIONS))
    }

    #[test]
    fn metering_does_not_change_values() {
        for source in [
            "1 + 2",
            "'a' + 'b' + string(3)",
            "[1, 2, 3].map(x, x * 2 + 1)",
            "[1, 2, 3].filter(x, x > 1).map(x, [x, x])",
            "[[1], [2]].map(x, x.map(y, 'n' + string(y)))",
            "['a', 'b'].exists(x, x.startsWith('b')) && ![1].all(x, x > 1)",
            "{'a': 'x' + 'y', 'b': [1, 2].map(x, x)}",
            "{'a': 1}.a + math.abs(-3)",
            "lists.range(3)",
            "'a-b'.split('-').join('+')",
            "'a'.replace('a', 'bb')",
            "'%.2f %s'.format([1.5, 'x'])",
            "sets.contains([1, 2], [1])",
            "optional.of('a' + 'b').orValue('c')",
            "[?optional.of('a' + 'b'), ?optional.none(), 'c' + 'd']",
            "size({'a': 1}) + size('abc')",
            "[1][3]",
            "'a' + 1",
        ] {
            let [expected, found] = [false, true].map(|is_metered| run(source, is_metered));
            match (expected.unwrap(), found.unwrap()) {
                (Ok(expected), Ok(found)) => assert_eq!(found, expected, "{source}"),
                (Err(_), Err(_)) => {}
                (expected, found) => panic!("{source}: {found:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn large_values_and_expensive_calls_exhaust_the_budget() {
        let doubled = "['0123456789abcdef'].map(a, a + a + a + a + a + a + a + a)";
        let grow = ".map(a, a + a + a + a + a + a + a + a)";
        let text = format!("{doubled}{grow}{grow}[0]");
        for source in [
            format!("{doubled}{}", grow.repeat(6)),
            format!("{text}.replace('', {text})"),
            format!("{text}.split('').map(x, {text}).join({text})"),
            format!(
                "({text} + {text} + {text}).indexOf({text} + {text} + 'x') + ({text} + {text} + {text}).indexOf({text} + {text} + 'y')"
            ),
            "lists.range(1000000000)".to_owned(),
            "lists.range(8000).distinct()".to_owned(),
            "'%.1000000000f'.format([1.0])".to_owned(),
            format!("lists.range(1000).map(x, {text})"),
            format!("[{text}].map(t, [{}])", vec!["t"; 200].join(", ")),
            format!(
                "[{text}].map(t, {{{}}})",
                (0..200)
                    .map(|key| format!("{key}: t"))
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            // An operator may hide the error, but not the exhausted budget.
            format!("{doubled}{} == [] || true", grow.repeat(6)),
        ] {
            let started = Instant::now();
            assert_eq!(run(&source, true), Err(Exceeded::Bytes), "{source}");
            assert!(started.elapsed() < Duration::from_secs(10), "{source}");
        }
    }
}
