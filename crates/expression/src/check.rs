//! Static checks of a parsed expression. They find unknown names and mismatched types, and record the fields that the
//! expression reads.

mod numbers;

use std::collections::BTreeSet;

use berth_cel::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};
use berth_cel::{children, is_function, is_type};

use super::variables::{AGE, BINDING, CLUSTER, Kind, SCORES, kind_of};

/// Maximum depth of an expression.
const MAX_DEPTH: usize = 64;
/// Maximum number of nested loops.
pub(crate) const MAX_LOOPS: usize = 3;

/// The fields that an expression reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    pub(crate) cluster: Paths,
    pub(crate) binding: Paths,
}

/// Paths of the fields that an expression reads in one object. An empty path stands for the whole object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Paths(pub(crate) BTreeSet<Vec<String>>);

impl Paths {
    /// Returns the path of the whole object.
    pub(crate) fn everything() -> Self {
        Self([Vec::new()].into())
    }

    /// Reports whether the expression reads no field.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reports whether the expression reads the field at a path, a part of this field, or an object that contains this
    /// field.
    pub(crate) fn includes(&self, path: &[&str]) -> bool {
        self.0
            .iter()
            .any(|read| read.iter().zip(path).all(|(read, name)| read == name))
    }
}

/// The scores of the cluster that an expression reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadScores<'a> {
    /// The scores with these names. There may be none.
    Named(BTreeSet<&'a str>),
    /// All scores, because the name depends on other values.
    All,
}

impl Paths {
    /// Returns the scores that the expression reads, if these are the paths of the cluster.
    pub(crate) fn scores(&self) -> ReadScores<'_> {
        let mut names = BTreeSet::new();
        for path in self.score_paths() {
            match path {
                [_, name, ..] => names.insert(&**name),
                _ => return ReadScores::All,
            };
        }
        ReadScores::Named(names)
    }

    /// Reports whether the expression reads the age of a score, which changes with the time.
    pub(crate) fn reads_age(&self) -> bool {
        self.score_paths()
            .any(|path| path.get(2).is_none_or(|field| field == AGE))
    }

    fn score_paths(&self) -> impl Iterator<Item = &[String]> {
        let paths = self.0.iter().map(Vec::as_slice);
        paths.filter(|path| path.first().is_none_or(|field| field == SCORES))
    }
}

/// An error, and the name in the source at which the error is reported.
pub(crate) struct Problem {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Returns the variable and the path of a field access such as `cluster.a["b"].c`.
fn field_access(expr: &IdedExpr) -> Option<(&str, Vec<&str>)> {
    match &expr.expr {
        Expr::Ident(name) => Some((name, Vec::new())),
        Expr::Select(select) => {
            let (variable, mut path) = field_access(&select.operand)?;
            path.push(&select.field);
            Some((variable, path))
        }
        Expr::Call(call) => {
            let indexes = [
                operators::INDEX,
                operators::OPT_INDEX,
                operators::OPT_SELECT,
            ];
            let ([object, key], true) = (
                call.args.as_slice(),
                indexes.contains(&call.func_name.as_str()),
            ) else {
                return None;
            };
            let (variable, mut path) = field_access(object)?;
            path.push(string_literal(key)?);
            Some((variable, path))
        }
        _ => None,
    }
}

fn string_literal(expr: &IdedExpr) -> Option<&str> {
    match &expr.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

/// The state of a check.
#[derive(Default)]
pub(crate) struct Check {
    /// The variables of enclosing loops.
    loop_variables: Vec<String>,
    pub(crate) reads: Reads,
}

impl Check {
    /// Checks an expression that is nested in `depth` expressions and `loops` loops. Records the fields that the
    /// expression reads.
    pub(crate) fn expression(
        &mut self,
        expr: &IdedExpr,
        depth: usize,
        loops: usize,
    ) -> Result<(), Problem> {
        if depth > MAX_DEPTH {
            return Err(problem(
                "",
                format!("the expression is nested deeper than {MAX_DEPTH} levels"),
            ));
        }
        if let Some((variable, mut path)) = field_access(expr) {
            self.check_path(variable, &path)?;
            // `has(cluster.scores.NAME)` does not read the age, so its result may be cached.
            let tests_score = variable == CLUSTER && matches!(path.as_slice(), [SCORES, _]);
            if tests_score && matches!(&expr.expr, Expr::Select(select) if select.test) {
                path.push("value");
            }
            self.record(variable, &path);
            return Ok(());
        }
        let depth = depth + 1;
        match &expr.expr {
            Expr::Call(call) => self.call(call, depth, loops),
            Expr::Comprehension(comprehension) => {
                if loops == MAX_LOOPS {
                    let text = format!("more than {MAX_LOOPS} loops are nested");
                    return Err(problem("", text));
                }
                self.expression(&comprehension.iter_range, depth, loops)?;
                self.expression(&comprehension.accu_init, depth, loops)?;
                let before = self.loop_variables.len();
                self.loop_variables.push(comprehension.iter_var.clone());
                self.loop_variables.push(comprehension.accu_var.clone());
                self.expression(&comprehension.loop_cond, depth, loops + 1)?;
                self.expression(&comprehension.loop_step, depth, loops + 1)?;
                self.expression(&comprehension.result, depth, loops)?;
                self.loop_variables.truncate(before);
                Ok(())
            }
            other => children(other)
                .into_iter()
                .try_for_each(|child| self.expression(child, depth, loops)),
        }
    }

    fn call(&mut self, call: &CallExpr, depth: usize, loops: usize) -> Result<(), Problem> {
        numbers::check_call(call)?;
        // The prefix of a function such as `math.abs` is no variable.
        let is_qualified = call.target.as_ref().is_some_and(|target| {
            matches!(&target.expr, Expr::Ident(prefix) if is_function(&format!("{prefix}.{}", call.func_name)))
        });
        let target = call.target.as_deref().filter(|_| !is_qualified);
        target
            .into_iter()
            .chain(&call.args)
            .try_for_each(|operand| self.expression(operand, depth, loops))
    }

    fn is_loop_variable(&self, variable: &str) -> bool {
        self.loop_variables.iter().any(|name| name == variable)
    }

    /// Checks that a field exists.
    fn check_path(&self, variable: &str, path: &[&str]) -> Result<(), Problem> {
        if self.is_loop_variable(variable) || is_type(&[&[variable], path].concat().join(".")) {
            return Ok(());
        }
        if ![CLUSTER, BINDING].contains(&variable) {
            let text = format!("undeclared variable {variable:?}: use {CLUSTER:?} or {BINDING:?}");
            return Err(problem(variable, text));
        }
        if let Err((name, known)) = kind_of(variable, path) {
            let known = known.join(", ");
            return Err(problem(
                &name,
                format!("there is no field {name:?} here, but {known}"),
            ));
        }
        Ok(())
    }

    /// Records that the expression reads a field.
    fn record(&mut self, variable: &str, path: &[&str]) {
        if self.is_loop_variable(variable) {
            return;
        }
        let paths = match variable {
            CLUSTER => &mut self.reads.cluster,
            BINDING => &mut self.reads.binding,
            _ => return,
        };
        paths
            .0
            .insert(path.iter().map(|&name| name.to_owned()).collect());
    }

    /// Returns the type of an expression's value, as far as the type is known before the evaluation.
    pub(crate) fn kind(&self, expr: &IdedExpr) -> Result<Kind, Problem> {
        if let Expr::Select(select) = &expr.expr
            && select.test
        {
            return Ok(Kind::Bool);
        }
        if let Some((variable, path)) = field_access(expr) {
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
        let require = |wanted: Kind| {
            let other = args
                .iter()
                .find(|&&kind| kind != wanted && kind != Kind::Unknown);
            match other {
                Some(other) => {
                    let operator = name.trim_matches('_');
                    let (wanted, other) = (wanted.name(), other.name());
                    Err(problem(
                        "",
                        format!("cannot apply {operator} to {other}: use {wanted}"),
                    ))
                }
                None => Ok(()),
            }
        };
        Ok(match name {
            operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT => {
                require(Kind::Bool)?;
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
                    let operator = name.trim_matches('_');
                    let (left, right) = (left.name(), right.name());
                    let text = format!("cannot apply {operator} to {left} and {right}");
                    return Err(problem("", text));
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
                require(Kind::Number)?;
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
