//! Compilation of a parsed expression: checks its names, and rewrites operators that the interpreter evaluates differently
//! from Kubernetes. It also inserts the calls that charge the budget for loop steps and for reading values.

use std::sync::Arc;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, SelectExpr, operators,
};
use kube_cel::cel::{Context, ExecutionError, IdedExpr, Value};

use super::expression::{ResultType, message};
use super::functions::{
    ALIKE, ALL, AT, BOTH, CHARGE, EITHER, ENTRIES, EQUAL, EXISTS, FOUND, JOIN, PLUS, STEP, TYPES,
    WITHIN,
};
use super::macros::RESULT;
use super::names::escape;
use super::shape::{Shape, Variable};
use crate::pattern;

/// A key and its value in a loop with two variables; users cannot write this name.
const ENTRY: &str = "@entry";

/// Conversions that are evaluated at compile time if their argument is constant.
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

/// Checks an expression and makes it ready to run.
pub(super) fn compile(
    mut root: IdedExpr,
    known: &Context<'static>,
    variables: &[Variable<'_>],
    result_type: ResultType,
) -> Result<IdedExpr, String> {
    let kind = match result_type {
        ResultType::Bool => "boolean",
        ResultType::String => "string",
    };
    let excluded = is_other_than(&root.expr, result_type);
    let mut compiler = Compiler {
        known,
        variables,
        scope: Vec::new(),
    };
    let shape = compiler.node(&mut root)?;
    if excluded || shape.excludes(kind) {
        return Err(format!("must evaluate to a {kind}"));
    }
    Ok(root)
}

struct Compiler<'e, 's> {
    known: &'e Context<'static>,
    variables: &'e [Variable<'s>],
    /// The variables of the enclosing loops, innermost last.
    scope: Vec<(String, Shape<'s>)>,
}

type Compiled<'s> = Result<(Expr, Shape<'s>), String>;

impl<'s> Compiler<'_, 's> {
    fn node(&mut self, e: &mut IdedExpr) -> Result<Shape<'s>, String> {
        let (expr, shape) = self.expr(std::mem::replace(&mut e.expr, Expr::Unspecified))?;
        e.expr = expr;
        Ok(shape)
    }

    fn expr(&mut self, expr: Expr) -> Compiled<'s> {
        let unknown = Shape::default();
        match expr {
            Expr::Ident(name) => {
                let name = name.trim_start_matches('.').to_owned();
                let shape = self.variable(&name)?;
                Ok((Expr::Ident(name), shape))
            }
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(c) => self.comprehension(c),
            Expr::List(mut list) => {
                for element in &mut list.elements {
                    self.node(element)?;
                    charge(element);
                }
                Ok((Expr::List(list), unknown))
            }
            Expr::Map(mut map) => {
                for entry in &mut map.entries {
                    if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                        self.node(&mut entry.key)?;
                        self.node(&mut entry.value)?;
                        charge(&mut entry.value);
                    }
                }
                Ok((Expr::Map(map), unknown))
            }
            Expr::Literal(_) => Ok((expr, unknown)),
            Expr::Struct(of) => Err(undeclared(&of.type_name)),
            Expr::Unspecified => Err("incomplete expression".to_owned()),
        }
    }

    fn local(&self, name: &str) -> Option<Shape<'s>> {
        let found = self.scope.iter().rev().find(|(local, _)| local == name);
        found.map(|(_, shape)| *shape)
    }

    fn variable(&self, name: &str) -> Result<Shape<'s>, String> {
        let global = || self.variables.iter().find(|v| v.name == name);
        self.local(name)
            .or_else(|| global().map(Variable::shape))
            .or_else(|| TYPES.contains(&name).then(Shape::default))
            .ok_or_else(|| undeclared(name))
    }

    fn select(&mut self, mut select: SelectExpr) -> Compiled<'s> {
        // The names of some types have dots.
        if let Some(prefix) = qualified(&select.operand.expr) {
            let name = format!("{prefix}.{}", select.field);
            let first = name.split('.').next().unwrap_or_default();
            if TYPES.contains(&name.as_str()) && self.local(first).is_none() {
                return Ok((Expr::Ident(name), Shape::default()));
            }
        }
        let operand = self.node(&mut select.operand)?;
        let field = operand.field(&select.field)?;
        if select.test {
            return Ok((Expr::Select(select), Shape::default()));
        }
        if !operand.optional {
            return Ok((Expr::Select(select), field));
        }
        let name = literal(LiteralValue::String(select.field.into()));
        let found = call(operators::OPT_INDEX, vec![*select.operand, name]);
        Ok((found.expr, field))
    }

    fn call(&mut self, mut call: CallExpr) -> Compiled<'s> {
        if call.func_name == operators::OPT_SELECT {
            return self.optional_select(call);
        }
        let dots = call.func_name.len() - call.func_name.trim_start_matches('.').len();
        call.func_name.drain(..dots);
        let prefix = call.target.as_ref().and_then(|t| qualified(&t.expr));
        let qualified = prefix
            .map(|prefix| format!("{}.{}", prefix.trim_start_matches('.'), call.func_name))
            .filter(|name| has_function(self.known, name));
        let on_target = call.target.is_some() && qualified.is_none();
        let name = qualified.unwrap_or_else(|| call.func_name.clone());
        let is_operator = name.starts_with(['_', '!', '-', '@']);
        if !is_operator && !has_function(self.known, &name) {
            return Err(undeclared(&name));
        }
        let mut target = Shape::default();
        if let Some(on) = call.target.as_mut().filter(|_| on_target) {
            target = self.node(on)?;
        }
        let args: Result<Vec<Shape<'s>>, String> =
            call.args.iter_mut().map(|arg| self.node(arg)).collect();
        let args = args?;
        self.check_constants(&name, &call)?;
        let shape = result(&name, target, &args);
        if is_operator {
            return Ok((operator(call, &args), shape));
        }
        if !name.contains('@') {
            call.args.iter_mut().for_each(charge);
            call.target
                .iter_mut()
                .filter(|_| on_target)
                .for_each(|target| charge(target));
        }
        Ok((Expr::Call(call), shape))
    }

    /// Compiles `a.?b`. An absent field yields an empty optional value, like an absent key.
    fn optional_select(&mut self, mut call: CallExpr) -> Compiled<'s> {
        let [operand, field] = call.args.as_mut_slice() else {
            return Err("incomplete expression".to_owned());
        };
        let operand = self.node(operand)?;
        let shape = match &field.expr {
            Expr::Literal(LiteralValue::String(name)) => operand.field(name.inner())?,
            _ => Shape::default(),
        };
        operators::OPT_INDEX.clone_into(&mut call.func_name);
        Ok((Expr::Call(call), shape.optional()))
    }

    /// Refuses constants that cannot be converted and patterns that cannot be compiled.
    fn check_constants(&self, name: &str, call: &CallExpr) -> Result<(), String> {
        if is_conversion(call) {
            let call = ided(Expr::Call(call.clone()));
            return Value::resolve(&call, self.known)
                .map(drop)
                .map_err(|e| message(&e));
        }
        match call.args.first().map(|arg| &arg.expr) {
            Some(Expr::Literal(LiteralValue::String(text)))
                if matches!(name, "find" | "findAll" | "matches") =>
            {
                pattern::compile(text.inner()).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn comprehension(&mut self, mut c: Box<ComprehensionExpr>) -> Compiled<'s> {
        let range = self.node(&mut c.iter_range)?.unwrapped();
        let initial = self.node(&mut c.accu_init)?;
        let binds = matches!(&c.iter_range.expr, Expr::List(list) if list.elements.is_empty());
        if binds {
            charge(&mut c.accu_init);
        }
        let before = self.scope.len();
        self.scope.push((c.accu_var.clone(), initial));
        match &c.iter_var2 {
            Some(second) => {
                self.scope.push((c.iter_var.clone(), Shape::default()));
                self.scope.push((second.clone(), range.element()));
            }
            None if range.is_map() => self.scope.push((c.iter_var.clone(), Shape::default())),
            None => self.scope.push((c.iter_var.clone(), range.element())),
        }
        self.node(&mut c.loop_cond)?;
        self.node(&mut c.loop_step)?;
        let result = self.node(&mut c.result)?;
        self.scope.truncate(before);
        let decision = match &mut c.loop_step.expr {
            Expr::Call(step) if decides(step, BOTH, &c.accu_var) => Some((step, ALL)),
            Expr::Call(step) if decides(step, EITHER, &c.accu_var) => Some((step, EXISTS)),
            _ => None,
        };
        if let Some((step, function)) = decision {
            function.clone_into(&mut step.func_name);
            c.result = call(FOUND, vec![c.result]);
        }
        c.loop_cond = call(
            operators::LOGICAL_AND,
            vec![call(STEP, Vec::new()), c.loop_cond],
        );
        if let Some(second) = c.iter_var2.take() {
            let part = |i: i64| {
                let index = literal(LiteralValue::Int(i.into()));
                call(operators::INDEX, vec![ident(ENTRY), index])
            };
            let first = std::mem::replace(&mut c.iter_var, ENTRY.to_owned());
            c.loop_step = bound(first, part(0), bound(second, part(1), c.loop_step));
            c.iter_range = call(ENTRIES, vec![c.iter_range]);
        }
        let shape = if binds { result } else { Shape::default() };
        Ok((Expr::Comprehension(c), shape))
    }
}

fn undeclared(name: &str) -> String {
    format!("undeclared reference to '{name}'")
}

/// Returns the shape of the result of a function or operator.
fn result<'s>(name: &str, target: Shape<'s>, args: &[Shape<'s>]) -> Shape<'s> {
    match (name, args) {
        (operators::CONDITIONAL, [_, yes, no]) => {
            if yes.item_keys().is_some() {
                *yes
            } else {
                *no
            }
        }
        (operators::ADD, [left, _]) => *left,
        (operators::INDEX, [of, _]) => of.element(),
        (operators::OPT_INDEX, [of, _]) => of.element().optional(),
        ("value" | "orValue", _) => target.unwrapped(),
        ("or", _) => target.optional(),
        ("optional.of", [of]) => of.optional(),
        ("optional.none", _) => Shape::default().optional(),
        _ => Shape::default(),
    }
}

/// Rewrites an operator: `&&` and `||` outweigh errors, numbers compare by value, sets and keyed lists compare and join
/// by item.
fn operator(mut operator: CallExpr, shapes: &[Shape<'_>]) -> Expr {
    let left = shapes.first().copied().unwrap_or_default();
    let is_literal = |e: &IdedExpr| {
        matches!(
            e.expr,
            Expr::Literal(LiteralValue::String(_) | LiteralValue::Boolean(_))
        )
    };
    let collects =
        matches!(operator.args.first().map(|a| &a.expr), Some(Expr::Ident(name)) if name == RESULT);
    let equality = matches!(
        operator.func_name.as_str(),
        operators::EQUALS | operators::NOT_EQUALS
    );
    let function = match operator.func_name.as_str() {
        operators::LOGICAL_AND => BOTH,
        operators::LOGICAL_OR => EITHER,
        operators::IN => WITHIN,
        operators::INDEX if !left.optional => AT,
        operators::ADD if !collects && left.item_keys().is_some() => JOIN,
        operators::ADD if !collects => PLUS,
        _ if equality && left.item_keys().is_some() => ALIKE,
        _ if equality && !operator.args.iter().any(is_literal) => EQUAL,
        _ => return Expr::Call(operator),
    };
    if matches!(function, JOIN | ALIKE) {
        let keys = left.item_keys().unwrap_or_default().into_iter();
        let keys = keys.map(|key| literal(LiteralValue::String(escape(key).into())));
        operator
            .args
            .push(ided(Expr::List(ListExpr::new(keys.collect()))));
    }
    let found = call(function, operator.args);
    if operator.func_name == operators::NOT_EQUALS {
        call(operators::LOGICAL_NOT, vec![found]).expr
    } else {
        found.expr
    }
}

/// Reports whether an expression certainly evaluates to another type.
fn is_other_than(expr: &Expr, result_type: ResultType) -> bool {
    match expr {
        Expr::Literal(LiteralValue::Boolean(_)) => result_type != ResultType::Bool,
        Expr::Literal(LiteralValue::String(_)) => result_type != ResultType::String,
        Expr::Literal(_) | Expr::List(_) | Expr::Map(_) => true,
        Expr::Select(select) => select.test && result_type != ResultType::Bool,
        Expr::Call(call) => match call.func_name.as_str() {
            operators::SUBSTRACT
            | operators::MULTIPLY
            | operators::DIVIDE
            | operators::MODULO
            | operators::NEGATE => true,
            operators::ADD => result_type != ResultType::String,
            operators::EQUALS
            | operators::NOT_EQUALS
            | operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS
            | operators::IN
            | operators::LOGICAL_AND
            | operators::LOGICAL_OR
            | operators::LOGICAL_NOT => result_type != ResultType::Bool,
            _ => false,
        },
        _ => false,
    }
}

/// Reports whether a call converts a constant.
fn is_conversion(call: &CallExpr) -> bool {
    let is_constant = |e: &IdedExpr| match &e.expr {
        Expr::Literal(_) => true,
        Expr::Call(inner) if inner.func_name == operators::NEGATE => {
            matches!(inner.args.as_slice(), [of] if matches!(of.expr, Expr::Literal(_)))
        }
        Expr::Call(inner) if inner.target.is_none() && inner.func_name == "dyn" => {
            matches!(inner.args.as_slice(), [of] if matches!(of.expr, Expr::Literal(_)))
        }
        Expr::Call(inner) => is_conversion(inner),
        _ => false,
    };
    call.target.is_none()
        && CONVERSIONS.contains(&call.func_name.as_str())
        && matches!(call.args.as_slice(), [of] if is_constant(of))
}

/// Returns the name if the expression is a dotted name such as `a.b.c`.
fn qualified(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) if !select.test => Some(format!(
            "{}.{}",
            qualified(&select.operand.expr)?,
            select.field
        )),
        _ => None,
    }
}

/// Reports whether a loop step calls this function with the accumulated value.
fn decides(step: &CallExpr, function: &str, accumulated: &str) -> bool {
    let first = step.args.first().map(|first| &first.expr);
    step.func_name == function && matches!(first, Some(Expr::Ident(name)) if name == accumulated)
}

/// Returns a loop over an empty list, which binds a variable.
fn bound(name: String, value: IdedExpr, result: IdedExpr) -> IdedExpr {
    ided(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: ided(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: "@unused".to_owned(),
        iter_var2: None,
        loop_cond: literal(LiteralValue::Boolean(false.into())),
        loop_step: ident(&name),
        accu_var: name,
        accu_init: value,
        result,
    })))
}

/// Charges for reading the value of a subexpression.
fn charge(e: &mut IdedExpr) {
    if !matches!(e.expr, Expr::Literal(_)) {
        let of = std::mem::replace(&mut e.expr, Expr::Unspecified);
        e.expr = call(CHARGE, vec![ided(of)]).expr;
    }
}

/// Reports whether a function exists. The context has no lookup, so the function is called without arguments.
fn has_function(known: &Context<'_>, name: &str) -> bool {
    let undeclared = ExecutionError::UndeclaredReference(Arc::new(name.to_owned()));
    Value::resolve(&call(name, Vec::new()), known) != Err(undeclared)
}

fn call(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    ided(Expr::Call(CallExpr {
        func_name: name.to_owned(),
        target: None,
        args,
    }))
}

fn ident(name: &str) -> IdedExpr {
    ided(Expr::Ident(name.to_owned()))
}

fn literal(value: LiteralValue) -> IdedExpr {
    ided(Expr::Literal(value))
}

fn ided(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}
