//! The check of the names in a parsed expression, and its rewriting for the interpreter. The compiler adds to each loop
//! a call that counts the loop steps, and rewrites operators and loops that the interpreter evaluates differently from
//! Kubernetes.

use std::sync::Arc;

use berth_apimachinery::go_regex;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, SelectExpr, operators,
};
use kube_cel::cel::{Context, ExecutionError, IdedExpr, Value};

use super::functions::{ALL, EQUAL, EXISTS, FOUND, STEP, TYPES};
use super::{Variable, metering};

/// Conversion functions that the compiler calls with constant arguments, to refuse constants that cannot be converted.
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

/// The type that an expression must evaluate to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultType {
    Bool,
    String,
}

impl ResultType {
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "boolean",
            Self::String => "string",
        }
    }
}

/// Returns the message for a failed evaluation.
pub fn message(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::IndexOutOfBounds(Value::Int(at)) => format!("index out of bounds: {at}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::UndeclaredReference(name) => format!("undeclared reference to '{name}'"),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        _ => "no such overload".to_owned(),
    }
}

/// Checks an expression and rewrites it for the interpreter.
pub fn compile(
    mut root: IdedExpr,
    known: &Context<'static>,
    variables: &[Variable],
    result_type: ResultType,
) -> Result<IdedExpr, String> {
    let excluded = is_other_than(&root.expr, result_type);
    let mut compiler = Compiler {
        known,
        variables,
        scope: Vec::new(),
    };
    compiler.node(&mut root)?;
    if excluded || compiler.is_optional(&root) {
        return Err(format!("must evaluate to a {}", result_type.name()));
    }
    metering::meter(&mut root, &|name| has_function(known, name));
    Ok(root)
}

struct Compiler<'e> {
    known: &'e Context<'static>,
    variables: &'e [Variable],
    /// The variables of the enclosing loops, innermost last.
    scope: Vec<String>,
}

impl Compiler<'_> {
    fn node(&mut self, e: &mut IdedExpr) -> Result<(), String> {
        e.expr = match std::mem::replace(&mut e.expr, Expr::Unspecified) {
            Expr::Ident(name) => {
                let name = name.trim_start_matches('.').to_owned();
                let is_known = self.scope.contains(&name)
                    || self.variables.iter().any(|v| v.name == name)
                    || TYPES.contains(&name.as_str());
                if !is_known {
                    return Err(undeclared(&name));
                }
                Expr::Ident(name)
            }
            Expr::Select(select) => self.select(select)?,
            Expr::Call(call) => self.call(call)?,
            Expr::Comprehension(c) => self.comprehension(c)?,
            Expr::List(mut list) => {
                for element in &mut list.elements {
                    self.node(element)?;
                }
                Expr::List(list)
            }
            Expr::Map(mut map) => {
                for entry in &mut map.entries {
                    if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                        self.node(&mut entry.key)?;
                        self.node(&mut entry.value)?;
                    }
                }
                Expr::Map(map)
            }
            Expr::Struct(of) => return Err(undeclared(&of.type_name)),
            Expr::Unspecified => return Err("incomplete expression".to_owned()),
            literal @ Expr::Literal(_) => literal,
        };
        Ok(())
    }

    /// Reports whether the result of a compiled expression is a CEL optional.
    fn is_optional(&self, e: &IdedExpr) -> bool {
        match &e.expr {
            Expr::Ident(name) => {
                let is = |variable: &Variable| variable.optional && variable.name == name;
                self.variables.iter().any(is) && !self.scope.contains(name)
            }
            Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
                (operators::OPT_INDEX | "or", _) => true,
                (operators::CONDITIONAL, [_, yes, _]) => self.is_optional(yes),
                (operators::INDEX, [of, _]) => self.is_optional(of),
                ("of" | "none", _) => call
                    .target
                    .as_ref()
                    .is_some_and(|of| qualified(&of.expr).as_deref() == Some("optional")),
                _ => false,
            },
            _ => false,
        }
    }

    fn select(&mut self, mut select: SelectExpr) -> Result<Expr, String> {
        // The names of some types contain dots.
        if let Some(prefix) = qualified(&select.operand.expr) {
            let name = format!("{prefix}.{}", select.field);
            if TYPES.contains(&name.as_str()) {
                return Ok(Expr::Ident(name));
            }
        }
        self.node(&mut select.operand)?;
        if select.test || !self.is_optional(&select.operand) {
            return Ok(Expr::Select(select));
        }
        let name = literal(LiteralValue::String(select.field.into()));
        Ok(call(operators::OPT_INDEX, vec![*select.operand, name]).expr)
    }

    fn call(&mut self, mut call: CallExpr) -> Result<Expr, String> {
        // An absent field yields an empty optional, and so does an absent key.
        if call.func_name == operators::OPT_SELECT {
            operators::OPT_INDEX.clone_into(&mut call.func_name);
            if let Some(operand) = call.args.first_mut() {
                self.node(operand)?;
            }
            return Ok(Expr::Call(call));
        }
        let dots = call.func_name.len() - call.func_name.trim_start_matches('.').len();
        call.func_name.drain(..dots);
        let prefix = call.target.as_ref().and_then(|t| qualified(&t.expr));
        let qualified = prefix
            .map(|prefix| format!("{}.{}", prefix.trim_start_matches('.'), call.func_name))
            .filter(|name| has_function(self.known, name));
        if let Some(on) = call.target.as_mut().filter(|_| qualified.is_none()) {
            self.node(on)?;
        }
        let name = qualified.unwrap_or_else(|| call.func_name.clone());
        let is_operator = name.starts_with(['_', '!', '-', '@']);
        if !is_operator && !has_function(self.known, &name) {
            return Err(undeclared(&name));
        }
        for arg in &mut call.args {
            self.node(arg)?;
        }
        if name.starts_with("get") && !call.args.is_empty() {
            return Err(format!("{name}: time zones are not supported"));
        }
        self.check_constants(&name, &call)?;
        // The interpreter's `==` is replaced: numbers of different types are equal if their values are equal.
        let is_equality = [operators::EQUALS, operators::NOT_EQUALS].contains(&name.as_str());
        if !is_equality {
            return Ok(Expr::Call(call));
        }
        let equal = self::call(EQUAL, call.args);
        Ok(match name.as_str() {
            operators::EQUALS => equal.expr,
            _ => self::call(operators::LOGICAL_NOT, vec![equal]).expr,
        })
    }

    /// Refuses constants that cannot be converted, and constant patterns that cannot be compiled.
    fn check_constants(&self, name: &str, call: &CallExpr) -> Result<(), String> {
        if is_conversion(call) {
            let call = ided(Expr::Call(call.clone()));
            return Value::resolve(&call, self.known)
                .map(drop)
                .map_err(|e| message(&e));
        }
        // The text is the target of a method call, and the first argument of a call of the global function `matches`.
        let pattern = match name {
            "matches" if call.target.is_none() => call.args.get(1),
            "find" | "findAll" | "matches" => call.args.first(),
            _ => None,
        };
        match pattern.map(|pattern| &pattern.expr) {
            Some(Expr::Literal(LiteralValue::String(text))) => {
                go_regex::compile(text.inner()).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn comprehension(&mut self, mut c: Box<ComprehensionExpr>) -> Result<Expr, String> {
        self.node(&mut c.iter_range)?;
        self.node(&mut c.accu_init)?;
        let before = self.scope.len();
        self.scope.extend([c.accu_var.clone(), c.iter_var.clone()]);
        let decision = match &mut c.loop_step.expr {
            Expr::Call(step) if decides(step, operators::LOGICAL_AND, &c.accu_var) => Some(ALL),
            Expr::Call(step) if decides(step, operators::LOGICAL_OR, &c.accu_var) => Some(EXISTS),
            _ => None,
        };
        self.node(&mut c.loop_cond)?;
        self.node(&mut c.loop_step)?;
        self.node(&mut c.result)?;
        self.scope.truncate(before);
        if let (Some(function), Expr::Call(step)) = (decision, &mut c.loop_step.expr) {
            function.clone_into(&mut step.func_name);
            c.result = call(FOUND, vec![c.result]);
        }
        let step = call(STEP, Vec::new());
        c.loop_cond = call(operators::LOGICAL_AND, vec![step, c.loop_cond]);
        Ok(Expr::Comprehension(c))
    }
}

fn undeclared(name: &str) -> String {
    format!("undeclared reference to '{name}'")
}

/// Reports whether the result of an expression certainly has another type than `result_type`.
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

/// Reports whether a call converts a constant to another type.
fn is_conversion(call: &CallExpr) -> bool {
    let is_constant = |e: &IdedExpr| match &e.expr {
        Expr::Literal(_) => true,
        Expr::Call(inner) if [operators::NEGATE, "dyn"].contains(&inner.func_name.as_str()) => {
            matches!(inner.args.as_slice(), [of] if matches!(of.expr, Expr::Literal(_)))
        }
        Expr::Call(inner) => is_conversion(inner),
        _ => false,
    };
    call.target.is_none()
        && CONVERSIONS.contains(&call.func_name.as_str())
        && matches!(call.args.as_slice(), [of] if is_constant(of))
}

/// Returns the name if an expression is a dotted name such as `a.b.c`.
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

/// Reports whether a loop step calls `function` with the accumulated value as its first argument.
fn decides(step: &CallExpr, function: &str, accumulated: &str) -> bool {
    let first = step.args.first().map(|first| &first.expr);
    step.func_name == function && matches!(first, Some(Expr::Ident(name)) if name == accumulated)
}

/// Reports whether a function exists. `Context` has no lookup, so the function is called without arguments. Only an
/// unknown function fails with an undeclared reference.
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

fn literal(value: LiteralValue) -> IdedExpr {
    ided(Expr::Literal(value))
}

fn ided(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}
