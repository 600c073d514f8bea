//! The check of the names in a parsed expression, and its rewriting for the interpreter. The compiler adds to each loop
//! a call that counts the loop steps, and rewrites operators and loops that the interpreter evaluates differently from
//! Kubernetes.

use std::collections::BTreeSet;

use berth_apimachinery::go_regex;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, Expr, LiteralValue, SelectExpr, operators,
};
use kube_cel::cel::{IdedExpr, Value};

use super::error::{CompileError, message};
use super::functions::{ALL, EQUAL, EXISTS, FOUND, FUNCTIONS, STEP, is_function, is_type};
use super::tree::{self, call, children_mut, node};

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

/// A variable of an expression.
#[derive(Debug, Clone, Copy)]
pub struct Variable {
    /// The name of the variable.
    pub name: &'static str,
    /// True if the value of the variable is a CEL optional.
    pub optional: bool,
}

impl Variable {
    /// Returns a variable that always has a value.
    pub fn plain(name: &'static str) -> Self {
        Self {
            name,
            optional: false,
        }
    }
}

/// A compiled expression, and the properties of its source.
pub(crate) struct Compiled {
    pub(crate) root: IdedExpr,
    /// The names of variables, also of loops.
    pub(crate) names: BTreeSet<String>,
    /// True if the expression indexes a list or map.
    pub(crate) indexes: bool,
    /// True if the result is certainly a CEL optional.
    pub(crate) is_optional: bool,
}

/// Checks an expression and rewrites it for the interpreter.
pub(crate) fn compile(
    mut root: IdedExpr,
    variables: &[Variable],
    max_pattern: usize,
) -> Result<Compiled, CompileError> {
    let mut compiler = Compiler {
        variables,
        max_pattern,
        scope: Vec::new(),
        names: BTreeSet::new(),
        indexes: false,
    };
    compiler.node(&mut root)?;
    let is_optional = compiler.is_optional(&root);
    Ok(Compiled {
        root,
        names: compiler.names,
        indexes: compiler.indexes,
        is_optional,
    })
}

struct Compiler<'e> {
    variables: &'e [Variable],
    max_pattern: usize,
    /// The variables of the enclosing loops, innermost last.
    scope: Vec<String>,
    names: BTreeSet<String>,
    indexes: bool,
}

impl Compiler<'_> {
    fn node(&mut self, e: &mut IdedExpr) -> Result<(), CompileError> {
        e.expr = match std::mem::take(&mut e.expr) {
            Expr::Ident(name) => {
                let name = name.trim_start_matches('.').to_owned();
                let is_known = self.scope.contains(&name)
                    || self.variables.iter().any(|v| v.name == name)
                    || is_type(&name);
                if !is_known {
                    return Err(undeclared("variable", &name));
                }
                self.names.insert(name.clone());
                Expr::Ident(name)
            }
            Expr::Select(select) => self.select(select)?,
            Expr::Call(call) => self.call(call)?,
            Expr::Comprehension(c) => self.comprehension(c)?,
            Expr::Struct(of) => return Err(undeclared("type", &of.type_name)),
            Expr::Unspecified => return Err("incomplete expression".to_owned().into()),
            mut other @ (Expr::List(_) | Expr::Map(_) | Expr::Literal(_)) => {
                for child in children_mut(&mut other) {
                    self.node(child)?;
                }
                other
            }
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
                (operators::OPT_INDEX | "or" | "optional.of" | "optional.none", _) => true,
                (operators::CONDITIONAL, [_, yes, _]) => self.is_optional(yes),
                (operators::INDEX, [of, _]) => self.is_optional(of),
                _ => false,
            },
            _ => false,
        }
    }

    /// Selects a field by its index, because the interpreter copies a selected field, but borrows an indexed one.
    fn select(&mut self, mut select: SelectExpr) -> Result<Expr, CompileError> {
        // The names of some types contain dots.
        if let Some(prefix) = qualified(&select.operand.expr) {
            let name = format!("{prefix}.{}", select.field);
            if is_type(&name) {
                return Ok(Expr::Ident(name));
            }
        }
        self.node(&mut select.operand)?;
        if select.test {
            return Ok(Expr::Select(select));
        }
        self.indexes |= self.is_optional(&select.operand);
        let name = node(Expr::Literal(LiteralValue::String(select.field.into())));
        Ok(call(operators::INDEX, vec![*select.operand, name]).expr)
    }

    fn call(&mut self, mut call: CallExpr) -> Result<Expr, CompileError> {
        let dots = call.func_name.len() - call.func_name.trim_start_matches('.').len();
        call.func_name.drain(..dots);
        if call.func_name == operators::OPT_SELECT {
            // The optional field `a.?b` becomes the optional key `a[?'b']`, which may be absent.
            operators::OPT_INDEX.clone_into(&mut call.func_name);
        }
        let prefix = call.target.as_ref().and_then(|t| qualified(&t.expr));
        let qualified = prefix
            .map(|prefix| format!("{}.{}", prefix.trim_start_matches('.'), call.func_name))
            .filter(|name| is_function(name));
        if let Some(qualified) = qualified {
            call.target = None;
            call.func_name = qualified;
        }
        if let Some(on) = &mut call.target {
            self.node(on)?;
        }
        let name = call.func_name.as_str();
        let is_operator = name.starts_with(['_', '!', '-', '@']);
        if !is_operator && !is_function(name) {
            return Err(undeclared("function", name));
        }
        for arg in &mut call.args {
            self.node(arg)?;
        }
        if name.starts_with("get") && !call.args.is_empty() {
            return Err(format!("{name}: time zones are not supported").into());
        }
        self.check_constants(&call)?;
        self.indexes |= [operators::INDEX, operators::OPT_INDEX].contains(&name);
        // The interpreter's `==` is replaced: numbers of different types are equal if their values are equal.
        let is_text = |e: &IdedExpr| matches!(e.expr, Expr::Literal(LiteralValue::String(_)));
        Ok(match name {
            _ if call.args.iter().any(is_text) => Expr::Call(call),
            operators::EQUALS => tree::call(EQUAL, call.args).expr,
            operators::NOT_EQUALS => {
                let equal = tree::call(EQUAL, call.args);
                tree::call(operators::LOGICAL_NOT, vec![equal]).expr
            }
            _ => Expr::Call(call),
        })
    }

    /// Refuses constants that cannot be converted, and constant patterns that cannot be compiled.
    fn check_constants(&self, call: &CallExpr) -> Result<(), CompileError> {
        if is_conversion(call) {
            let call = node(Expr::Call(call.clone()));
            return Value::resolve(&call, &FUNCTIONS)
                .map(drop)
                .map_err(|e| message(&e).into());
        }
        // The text is the target of a method call, and the first argument of a call of the global function `matches`.
        let pattern = match call.func_name.as_str() {
            "matches" if call.target.is_none() => call.args.get(1),
            "find" | "findAll" | "matches" => call.args.first(),
            _ => None,
        };
        match pattern.map(|pattern| &pattern.expr) {
            Some(Expr::Literal(LiteralValue::String(text))) => {
                go_regex::compile_within(text.inner(), self.max_pattern)
                    .map(drop)
                    .map_err(|message| CompileError::Pattern {
                        function: call.func_name.clone(),
                        message,
                    })
            }
            _ => Ok(()),
        }
    }

    fn comprehension(&mut self, mut c: Box<ComprehensionExpr>) -> Result<Expr, CompileError> {
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

fn undeclared(noun: &'static str, name: &str) -> CompileError {
    CompileError::Undeclared {
        noun,
        name: name.to_owned(),
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
