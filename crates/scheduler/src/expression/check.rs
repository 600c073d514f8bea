//! What can be said of an expression before it is evaluated: names that do not resolve, types that do not fit, and what
//! it reads of the objects.

use std::collections::BTreeSet;

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, LiteralValue, operators};

use super::functions;
use super::variables::{BINDING, CLUSTER, Kind, kind_of};

/// How deep an expression may be.
const MAX_DEPTH: usize = 64;
/// Loops within loops.
pub(super) const MAX_LOOPS: usize = 3;

/// What an expression refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Uses {
    pub(super) cluster: Paths,
    pub(super) binding: Paths,
}

/// What is read of an object: paths into it. An empty one stands for the whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Paths(pub(super) BTreeSet<Vec<String>>);

impl Paths {
    /// Whether nothing is read.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this, or something in it, is read.
    pub(super) fn reach(&self, path: &[&str]) -> bool {
        self.0
            .iter()
            .any(|one| one.iter().zip(path).all(|(one, other)| one == other))
    }
}

/// Something wrong, and the name in the source that it is about.
pub(super) struct Problem {
    pub(super) name: String,
    pub(super) text: String,
}

/// The names of a chain `cluster.a["b"].c`: the variable and the path.
fn chain(expr: &IdedExpr) -> Option<(&str, Vec<&str>)> {
    match &expr.expr {
        Expr::Ident(name) => Some((name, Vec::new())),
        Expr::Select(select) => {
            let (variable, mut path) = chain(&select.operand)?;
            path.push(&select.field);
            Some((variable, path))
        }
        Expr::Call(call) => {
            let indexes = [
                operators::INDEX,
                operators::OPT_INDEX,
                operators::OPT_SELECT,
            ];
            let ([of, key], true) = (
                call.args.as_slice(),
                indexes.contains(&call.func_name.as_str()),
            ) else {
                return None;
            };
            let (variable, mut path) = chain(of)?;
            path.push(text(key)?);
            Some((variable, path))
        }
        _ => None,
    }
}

fn text(expr: &IdedExpr) -> Option<&str> {
    match &expr.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

/// Finds what cannot be resolved, and what is read.
#[derive(Default)]
pub(super) struct Check {
    /// Variables of the loops around.
    bound: Vec<String>,
    pub(super) uses: Uses,
}

impl Check {
    /// Looks through an expression, at this depth and within so many loops.
    pub(super) fn look(
        &mut self,
        expr: &IdedExpr,
        depth: usize,
        loops: usize,
    ) -> Result<(), Problem> {
        if depth > MAX_DEPTH {
            return Err(problem(
                "",
                format!("the expression is deeper than {MAX_DEPTH} levels"),
            ));
        }
        if let Some((variable, path)) = chain(expr) {
            return self.read(variable, &path);
        }
        let depth = depth + 1;
        match &expr.expr {
            Expr::Call(call) => self.call(call, depth, loops),
            Expr::Comprehension(comprehension) => {
                if loops == MAX_LOOPS {
                    let text = format!("more than {MAX_LOOPS} loops are within each other");
                    return Err(problem("", text));
                }
                self.look(&comprehension.iter_range, depth, loops)?;
                self.look(&comprehension.accu_init, depth, loops)?;
                let before = self.bound.len();
                self.bound.push(comprehension.iter_var.clone());
                self.bound.push(comprehension.accu_var.clone());
                self.look(&comprehension.loop_cond, depth, loops + 1)?;
                self.look(&comprehension.loop_step, depth, loops + 1)?;
                self.look(&comprehension.result, depth, loops)?;
                self.bound.truncate(before);
                Ok(())
            }
            Expr::List(list) => list
                .elements
                .iter()
                .try_for_each(|element| self.look(element, depth, loops)),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.look(&entry.key, depth, loops)?;
                    self.look(&entry.value, depth, loops)
                }
                EntryExpr::StructField(field) => self.look(&field.value, depth, loops),
            }),
            Expr::Select(select) => self.look(&select.operand, depth, loops),
            Expr::Struct(of) => Err(undeclared("type", &of.type_name)),
            Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Ok(()),
        }
    }

    fn call(&mut self, call: &CallExpr, depth: usize, loops: usize) -> Result<(), Problem> {
        let name = call.func_name.as_str();
        let qualified = call.target.as_ref().and_then(|target| match &target.expr {
            Expr::Ident(prefix) => Some(format!("{prefix}.{name}")),
            _ => None,
        });
        let is_qualified = qualified.as_deref().is_some_and(functions::exists);
        let is_operator = name.starts_with(['_', '!', '-', '@']);
        if !is_operator && !is_qualified && !functions::exists(name) {
            return Err(undeclared("function", name));
        }
        if let ("matches", Some(Err(error))) = (
            name,
            call.args.last().and_then(text).map(functions::pattern),
        ) {
            let shown = error.to_string();
            let shown = shown.lines().last().unwrap_or_default();
            return Err(problem(name, format!("the pattern is wrong: {shown}")));
        }
        if let Some(target) = call.target.as_ref().filter(|_| !is_qualified) {
            self.look(target, depth, loops)?;
        }
        call.args
            .iter()
            .try_for_each(|arg| self.look(arg, depth, loops))
    }

    fn read(&mut self, variable: &str, path: &[&str]) -> Result<(), Problem> {
        if self.bound.iter().any(|bound| bound == variable) {
            return Ok(());
        }
        let uses = match variable {
            CLUSTER => &mut self.uses.cluster,
            BINDING => &mut self.uses.binding,
            _ => {
                let text = format!(
                    "undeclared variable {variable:?}: there are {CLUSTER:?} and {BINDING:?}"
                );
                return Err(problem(variable, text));
            }
        };
        if let Err((name, known)) = kind_of(variable, path) {
            let known = known.join(", ");
            return Err(problem(
                &name,
                format!("there is no field {name:?} here, but {known}"),
            ));
        }
        uses.0
            .insert(path.iter().map(|&name| name.to_owned()).collect());
        Ok(())
    }

    /// The type of the value, as far as it is clear.
    /// The type of the value, as far as it is known.
    pub(super) fn kind(&self, expr: &IdedExpr) -> Result<Kind, Problem> {
        if let Expr::Select(select) = &expr.expr
            && select.test
        {
            return Ok(Kind::Bool);
        }
        if let Some((variable, path)) = chain(expr) {
            let optional =
                matches!(&expr.expr, Expr::Call(call) if call.func_name != operators::INDEX);
            return Ok(match kind_of(variable, &path) {
                Ok(kind) if !optional => kind,
                _ => Kind::Unknown,
            });
        }
        Ok(match &expr.expr {
            Expr::Literal(literal) => match literal {
                LiteralValue::Boolean(_) => Kind::Bool,
                LiteralValue::Double(_) | LiteralValue::Int(_) | LiteralValue::UInt(_) => {
                    Kind::Number
                }
                LiteralValue::String(_) => Kind::Text,
                LiteralValue::Bytes(_) | LiteralValue::Null => Kind::Unknown,
            },
            Expr::List(_) => Kind::List,
            Expr::Map(_) => Kind::Map,
            Expr::Call(call) => self.kind_of_call(call)?,
            _ => Kind::Unknown,
        })
    }

    fn kind_of_call(&self, call: &CallExpr) -> Result<Kind, Problem> {
        let args = call
            .args
            .iter()
            .map(|arg| self.kind(arg))
            .collect::<Result<Vec<_>, _>>()?;
        let name = call.func_name.as_str();
        let need = |wanted: Kind| {
            let other = args
                .iter()
                .find(|&&kind| kind != wanted && kind != Kind::Unknown);
            match other {
                Some(other) => {
                    let sign = name.trim_matches('_');
                    let (wanted, other) = (wanted.name(), other.name());
                    Err(problem(
                        "",
                        format!("{sign} wants {wanted} here, not {other}"),
                    ))
                }
                None => Ok(()),
            }
        };
        Ok(match name {
            operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT => {
                need(Kind::Bool)?;
                Kind::Bool
            }
            operators::SUBSTRACT | operators::ADD
                if args.contains(&Kind::Unknown) || call.args.len() != 2 =>
            {
                Kind::Unknown
            }
            operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS
            | operators::EQUALS
            | operators::NOT_EQUALS
            | operators::ADD => {
                if let &[left, right] = args.as_slice()
                    && left != right
                    && ![left, right].contains(&Kind::Unknown)
                {
                    let (sign, left, right) = (name.trim_matches('_'), left.name(), right.name());
                    return Err(problem("", format!("{left} {sign} {right} has no meaning")));
                }
                match args.first() {
                    Some(&first) if name == operators::ADD => first,
                    _ => Kind::Bool,
                }
            }
            operators::MULTIPLY
            | operators::DIVIDE
            | operators::MODULO
            | operators::NEGATE
            | operators::SUBSTRACT => {
                need(Kind::Number)?;
                Kind::Number
            }
            operators::IN | "contains" | "startsWith" | "endsWith" | "matches" => Kind::Bool,
            "int" | "uint" | "double" | "size" => Kind::Number,
            "string" => Kind::Text,
            operators::CONDITIONAL => match args.as_slice() {
                [_, left, right] if left == right => *left,
                _ => Kind::Unknown,
            },
            _ => Kind::Unknown,
        })
    }
}

fn problem(name: &str, text: impl Into<String>) -> Problem {
    Problem {
        name: name.to_owned(),
        text: text.into(),
    }
}

fn undeclared(what: &str, name: &str) -> Problem {
    problem(name, format!("undeclared {what} {name:?}"))
}
