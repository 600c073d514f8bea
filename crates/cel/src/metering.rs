//! Limits on the bytes that CEL expressions create and process. The interpreter itself limits nothing: three nested
//! `map` calls with `+` could create strings of a gigabyte.
//!
//! [`meter`] rewrites an expression once. Each call that creates or traverses values then becomes a call of [`METERED`].
//! This function evaluates the operands, prices the call before its execution, and charges the budget of the thread,
//! which [`Charge::start`] sets. The values of the expression stay the same.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Instant;

use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, operators};
use kube_cel::cel::common::types::{CelBytes, CelInt, CelList, CelMap, CelOptional, CelString};
use kube_cel::cel::common::value::Val;
use kube_cel::cel::{Context, ExecutionError, FunctionContext, IdedExpr, Value};

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

/// The budget of the evaluation on this thread.
#[derive(Clone, Copy, Debug)]
pub struct Charge {
    bytes: u64,
    left: u64,
    deadline: Instant,
}

thread_local! {
    static RUNNING: Cell<Option<Charge>> = const { Cell::new(None) };
}

impl Charge {
    /// Starts an evaluation on this thread, which may use this number of bytes until the deadline.
    pub fn start(bytes: u64, deadline: Instant) {
        RUNNING.set(Some(Self {
            bytes,
            left: bytes,
            deadline,
        }));
    }

    /// Ends the evaluation on this thread. Returns the used bytes, or `None` if the budget is exhausted.
    pub fn end() -> Option<u64> {
        let charge = RUNNING.take()?;
        (charge.left > 0).then_some(charge.bytes - charge.left)
    }

    /// Reports whether the evaluation on this thread has exhausted its budget.
    pub fn is_exhausted() -> bool {
        RUNNING.get().is_some_and(|charge| charge.left == 0)
    }
}

/// Adds the internal functions of metered expressions.
pub fn add_functions(context: &mut Context<'_>) {
    context.add_function(METERED, |call: &FunctionContext| metered(call));
    context.add_function(SMALL, |call: &FunctionContext| {
        let [variable] = call.args else {
            return Err(ExecutionError::NoSuchOverload);
        };
        check(size(Value::resolve_val(variable, call.ptx)?.as_ref()))?;
        Ok(Value::Bool(true))
    });
}

/// Makes the calls, lists and maps of an expression charge the budget. `is_function` reports whether a function with a
/// qualified name, such as `math.abs`, exists.
pub fn meter(expression: &mut IdedExpr, is_function: &dyn Fn(&str) -> bool) {
    if let Expr::Comprehension(comprehension) = &mut expression.expr {
        for part in [
            &mut comprehension.iter_range,
            &mut comprehension.accu_init,
            &mut comprehension.loop_cond,
            &mut comprehension.result,
        ] {
            meter(part, is_function);
        }
        let accumulated = comprehension.accu_var.clone();
        if meter_step(&mut comprehension.loop_step, &accumulated, is_function) {
            let small = call(SMALL, vec![ident(accumulated)]);
            let condition = std::mem::take(&mut comprehension.loop_cond);
            comprehension.loop_cond = call(operators::LOGICAL_AND, vec![small, condition]);
        }
        return;
    }
    let is_metered = is_metered(&expression.expr);
    let mut operands = Vec::new();
    for operand in operands_of(&mut expression.expr, is_function) {
        meter(operand, is_function);
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
fn meter_step(step: &mut IdedExpr, accumulated: &str, is_function: &dyn Fn(&str) -> bool) -> bool {
    if let Expr::Call(call) = &mut step.expr {
        match (call.func_name.as_str(), call.args.as_mut_slice()) {
            (operators::ADD, [list, appended]) if matches!(&list.expr, Expr::Ident(name) if name == accumulated) =>
            {
                match &mut appended.expr {
                    Expr::List(list) => list
                        .elements
                        .iter_mut()
                        .for_each(|element| meter(element, is_function)),
                    _ => meter(appended, is_function),
                }
                return true;
            }
            (operators::CONDITIONAL, [condition, yes, no]) => {
                meter(condition, is_function);
                let yes = meter_step(yes, accumulated, is_function);
                return meter_step(no, accumulated, is_function) || yes;
            }
            _ => {}
        }
    }
    meter(step, is_function);
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
    use kube_cel::cel::common::ast::LiteralValue;
    matches!(
        &expression.expr,
        Expr::Literal(LiteralValue::Int(_) | LiteralValue::UInt(_) | LiteralValue::Double(_))
    )
}

/// Returns the direct subexpressions of an expression other than a comprehension. The prefix of a qualified function
/// name is no subexpression.
fn operands_of<'e>(
    expression: &'e mut Expr,
    is_function: &dyn Fn(&str) -> bool,
) -> Vec<&'e mut IdedExpr> {
    match expression {
        Expr::Call(call) => {
            let qualified = qualified_name(call).filter(|name| is_function(name));
            let target = call.target.iter_mut().map(|target| &mut **target);
            let target = target.filter(|_| qualified.is_none());
            target.chain(&mut call.args).collect()
        }
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Map(map) => {
            let entries = map.entries.iter_mut();
            let parts = entries.filter_map(|entry| match &mut entry.expr {
                EntryExpr::MapEntry(entry) => Some([&mut entry.key, &mut entry.value]),
                EntryExpr::StructField(_) => None,
            });
            parts.flatten().collect()
        }
        Expr::Select(select) => vec![&mut select.operand],
        _ => Vec::new(),
    }
}

/// Returns the name of a call such as `math.abs(x)`.
fn qualified_name(call: &CallExpr) -> Option<String> {
    match &call.target.as_ref()?.expr {
        Expr::Ident(prefix) => Some(format!("{prefix}.{}", call.func_name)),
        _ => None,
    }
}

fn variable(index: usize) -> String {
    format!("@{index}")
}

fn ident(name: String) -> IdedExpr {
    IdedExpr {
        id: 0,
        expr: Expr::Ident(name),
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
    let name = match &call.target {
        Some(target) if matches!(&target.expr, Expr::Ident(name) if !name.starts_with('@')) => {
            qualified_name(call).unwrap_or_default()
        }
        _ => call.func_name.clone(),
    };
    let more = match name.as_str() {
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

fn charge(bytes: u64) -> Result<(), ExecutionError> {
    let Some(mut charge) = RUNNING.get() else {
        return Ok(());
    };
    let is_late = Instant::now() > charge.deadline;
    charge.left = if is_late {
        0
    } else {
        charge.left.saturating_sub(bytes)
    };
    RUNNING.set(Some(charge));
    if charge.left == 0 {
        return Err(exceeded());
    }
    Ok(())
}

/// Fails if a variable of this size exceeds the whole budget.
fn check(bytes: u64) -> Result<(), ExecutionError> {
    let Some(mut charge) = RUNNING.get() else {
        return Ok(());
    };
    if bytes < charge.bytes {
        return Ok(());
    }
    charge.left = 0;
    RUNNING.set(Some(charge));
    Err(exceeded())
}

fn exceeded() -> ExecutionError {
    ExecutionError::function_error("budget", "the values are too large")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube_cel::KubeCelExt as _;
    use kube_cel::cel::parser::Parser;

    use super::*;

    const BUDGET: u64 = 1 << 20;

    fn run(source: &str, is_metered: bool) -> (Result<Value, ExecutionError>, Option<u64>) {
        let mut context = Context::default().with_all();
        add_functions(&mut context);
        let parser = Parser::new().enable_optional_syntax(true);
        let mut root = parser.parse(source).unwrap();
        if is_metered {
            meter(&mut root, &|name| {
                [
                    "math.abs",
                    "lists.range",
                    "sets.contains",
                    "optional.of",
                    "optional.none",
                ]
                .contains(&name)
            });
        }
        Charge::start(BUDGET, Instant::now() + Duration::from_mins(1));
        let result = Value::resolve(&root, &context);
        (result, Charge::end())
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
            let (expected, _) = run(source, false);
            let (found, used) = run(source, true);
            match (expected, found) {
                (Ok(expected), Ok(found)) => assert_eq!(found, expected, "{source}"),
                (Err(_), Err(_)) => {}
                (expected, found) => panic!("{source}: {found:?}, not {expected:?}"),
            }
            assert!(used.is_some(), "{source}");
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
            let (_, used) = run(&source, true);
            assert_eq!(used, None, "{source}");
            assert!(started.elapsed() < Duration::from_secs(10), "{source}");
        }
    }
}
