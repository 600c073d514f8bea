//! An expression: parsed, checked and bounded when the configuration is loaded.

use std::collections::BTreeSet;
use std::fmt;

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, LiteralValue, operators};
use kube_cel::cel::parser::Parser;

use super::functions::{self, TURN};
use super::variables::{BINDING, CLUSTER, Kind, kind_of};

/// The length of an expression.
const MAX_LENGTH: usize = 4096;
/// How deep an expression may be.
const MAX_DEPTH: usize = 64;
/// Brackets within brackets, and choices.
const MAX_BRACKETS: usize = 32;
/// The parser gets a stack of its own: it recurses over all of an expression.
const PARSER_STACK: usize = 64 << 20;
/// Loops within loops.
const MAX_LOOPS: usize = 3;

/// What is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}, in {text:?}")]
pub(super) struct SyntaxError {
    /// From 1.
    pub(super) line: usize,
    /// From 1.
    pub(super) column: usize,
    /// The line.
    text: String,
    problem: String,
}

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

/// An expression that can be evaluated.
pub(super) struct Program {
    pub(super) source: String,
    pub(super) root: IdedExpr,
    pub(super) uses: Uses,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Program").field(&self.source).finish()
    }
}

impl Program {
    /// Parses an expression whose value is of this type.
    ///
    /// # Errors
    /// When it cannot be evaluated, whatever the objects are, or is too large.
    pub(super) fn parse(source: &str, wanted: Kind) -> Result<Self, SyntaxError> {
        let parse = || Self::parse_here(source, wanted);
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(PARSER_STACK);
            let thread = thread.spawn_scoped(scope, parse);
            thread.ok().and_then(|thread| thread.join().ok())
        })
        .unwrap_or_else(|| {
            let problem = "the parser has failed".to_owned();
            Err(located(source, (1, 1), problem))
        })
    }

    fn parse_here(source: &str, wanted: Kind) -> Result<Self, SyntaxError> {
        if source.len() > MAX_LENGTH {
            let problem = format!("the expression is longer than {MAX_LENGTH} bytes");
            return Err(located(source, (1, 1), problem));
        }
        if let Some(place) = too_nested(source) {
            let problem =
                format!("more than {MAX_BRACKETS} brackets or choices are within each other");
            return Err(located(source, place, problem));
        }
        let mut root = Parser::new()
            .enable_optional_syntax(true)
            .parse(source)
            .map_err(|errors| {
                let first = errors.errors.first();
                let place = first.map_or((1, 1), |error| error.pos);
                let problem = first.map_or("", |error| error.msg.as_str());
                let problem = problem.trim_start_matches("Syntax error: ");
                let place = (
                    usize::try_from(place.0).unwrap_or(1),
                    usize::try_from(place.1).unwrap_or(1),
                );
                located(source, place, format!("syntax error: {problem}"))
            })?;
        let refuse = |problem: Problem| {
            let place = place_of(source, &problem.name);
            located(source, place, problem.text)
        };
        let mut check = Check::default();
        check.look(&root, 0, 0).map_err(refuse)?;
        let kind = check.kind(&root).map_err(refuse)?;
        if kind != wanted && kind != Kind::Unknown {
            let (is, wanted) = (kind.name(), wanted.name());
            let problem = format!("{wanted} is wanted here, and the expression is {is}");
            return Err(located(source, (1, 1), problem));
        }
        bound_loops(&mut root);
        Ok(Self {
            source: source.to_owned(),
            root,
            uses: check.uses,
        })
    }
}

/// Something wrong, and the name in the source that it is about.
struct Problem {
    name: String,
    text: String,
}

fn located(source: &str, (line, column): (usize, usize), problem: String) -> SyntaxError {
    let text = source.lines().nth(line.saturating_sub(1));
    SyntaxError {
        line,
        column,
        text: text.unwrap_or_default().chars().take(200).collect(),
        problem: problem.replace('\n', " "),
    }
}

/// The first place of a name in the source, outside of texts; the beginning where it is not found.
fn place_of(source: &str, name: &str) -> (usize, usize) {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut before = ' ';
    outside_texts(source, |rest, c| {
        let found = !name.is_empty()
            && !is_name(before)
            && rest
                .strip_prefix(name)
                .is_some_and(|after| !after.starts_with(is_name));
        before = c;
        found
    })
    .unwrap_or((1, 1))
}

/// Where brackets and choices become more than the parser can take, whatever they mean.
fn too_nested(source: &str) -> Option<(usize, usize)> {
    let (mut open, mut choices) = (0_usize, 0);
    outside_texts(source, |_, c| {
        match c {
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' => open = open.saturating_sub(1),
            '?' => choices += 1,
            _ => {}
        }
        open > MAX_BRACKETS || choices > MAX_BRACKETS
    })
}

/// The line and column of the first character outside of texts at which something is found.
fn outside_texts(
    source: &str,
    mut found: impl FnMut(&str, char) -> bool,
) -> Option<(usize, usize)> {
    let (mut quote, mut before, mut line, mut column) = (None, ' ', 1, 1);
    for (at, c) in source.char_indices() {
        if quote.is_none() && source.get(at..).is_some_and(|rest| found(rest, c)) {
            return Some((line, column));
        }
        match quote {
            None if c == '"' || c == '\'' => quote = Some(c),
            Some(open) if c == open && before != '\\' => quote = None,
            _ => {}
        }
        before = c;
        (line, column) = if c == '\n' {
            (line + 1, 1)
        } else {
            (line, column + 1)
        };
    }
    None
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
struct Check {
    /// Variables of the loops around.
    bound: Vec<String>,
    uses: Uses,
}

impl Check {
    fn look(&mut self, expr: &IdedExpr, depth: usize, loops: usize) -> Result<(), Problem> {
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
    fn kind(&self, expr: &IdedExpr) -> Result<Kind, Problem> {
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

/// Makes every loop count its turns, and selections borrow instead of copying what they select from.
fn bound_loops(expr: &mut IdedExpr) {
    match &mut expr.expr {
        Expr::Call(call) => {
            if call.func_name == operators::OPT_SELECT {
                // An absent field is none, as an absent key is.
                operators::OPT_INDEX.clone_into(&mut call.func_name);
            }
            call.target
                .iter_mut()
                .for_each(|target| bound_loops(target));
            call.args.iter_mut().for_each(bound_loops);
        }
        Expr::Comprehension(comprehension) => {
            for part in [
                &mut comprehension.iter_range,
                &mut comprehension.accu_init,
                &mut comprehension.loop_cond,
                &mut comprehension.loop_step,
                &mut comprehension.result,
            ] {
                bound_loops(part);
            }
            let condition = std::mem::take(&mut comprehension.loop_cond);
            comprehension.loop_cond = call(
                operators::LOGICAL_AND,
                vec![call(TURN, Vec::new()), condition],
            );
        }
        Expr::List(list) => list.elements.iter_mut().for_each(bound_loops),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    bound_loops(&mut entry.key);
                    bound_loops(&mut entry.value);
                }
            }
        }
        Expr::Select(select) => {
            bound_loops(&mut select.operand);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(source: &str, wanted: Kind) -> String {
        Program::parse(source, wanted).unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (source, wanted, starts) in [
            (
                "cluster.spec.region ==",
                Kind::Bool,
                "line 1, column 23: syntax error: ",
            ),
            (
                "true &&\n  foo == 1",
                Kind::Bool,
                "line 2, column 3: undeclared variable \"foo\"",
            ),
            (
                "'foo' == foo",
                Kind::Bool,
                "line 1, column 10: undeclared variable \"foo\"",
            ),
            (
                "1 == lower(cluster)",
                Kind::Bool,
                "line 1, column 6: undeclared function \"lower\"",
            ),
            (
                "cluster.metdata.name == 'a'",
                Kind::Bool,
                "line 1, column 9: there is no field \"metdata\" here, but apiVersion, ",
            ),
            (
                "cluster.metadata.name",
                Kind::Bool,
                "line 1, column 1: a bool is wanted here, and the expression is a string",
            ),
            (
                "cluster.spec.region == 'a'",
                Kind::Number,
                "line 1, column 1: a number is wanted here, and the expression is a bool",
            ),
            (
                "cluster.spec.region == 1",
                Kind::Bool,
                "line 1, column 1: a string == a number has no meaning",
            ),
            (
                "100 - cluster.spec.region",
                Kind::Number,
                "line 1, column 1: - wants a number here, not a string",
            ),
            (
                "cluster.metadata.name.matches('[')",
                Kind::Bool,
                "line 1, column 23: the pattern is wrong: ",
            ),
            (
                "Foo{a: 1} == 1",
                Kind::Bool,
                "line 1, column 1: undeclared type \"Foo\"",
            ),
            ("", Kind::Bool, "line 1, column 1: syntax error: "),
        ] {
            let said = refused(source, wanted);
            assert!(said.starts_with(starts), "{source}: {said}");
            assert!(!said.contains('\n'), "{said}");
        }
    }

    #[test]
    fn large_expressions_are_refused() {
        let long = format!("cluster.metadata.name == '{}'", "a".repeat(MAX_LENGTH));
        assert!(refused(&long, Kind::Bool).contains("longer than 4096 bytes"));
        for (before, again, after) in [
            ("", "(", "1 == 1"),
            ("", "[", "1"),
            ("", "'a' == (", "1"),
            ("0", " + 1", " > 1"),
            ("true", " ? true : true", ""),
            ("cluster", ".a", " == 1"),
            ("[1]", "[0]", " == 1"),
            ("true", " == true", ""),
            ("", "size('a')+", ""),
        ] {
            let times = (MAX_LENGTH - before.len() - after.len()) / again.len();
            let source = format!("{before}{}{after}", again.repeat(times));
            assert!(Program::parse(&source, Kind::Bool).is_err(), "{source}");
        }
        let negated = format!("{}true", "!".repeat(4000));
        assert!(Program::parse(&negated, Kind::Bool).is_ok());
        let all = format!("true{}", " && true".repeat(500));
        assert!(Program::parse(&all, Kind::Bool).is_ok());
        let mut loops = "true".to_owned();
        for _ in 0..=MAX_LOOPS {
            loops = format!("[1, 2].all(x, {loops})");
        }
        assert!(refused(&loops, Kind::Bool).contains("more than 3 loops"));
    }

    #[test]
    fn what_is_read_is_known() {
        let source = "cluster.metadata.labels['a'] == binding.spec.resource.kind \
            && cluster.status.conditions.exists(c, c.type == 'Ready') && has(cluster.spec.region)";
        let uses = Program::parse(source, Kind::Bool).unwrap().uses;
        assert!(uses.cluster.reach(&["metadata"]));
        assert!(uses.cluster.reach(&["status", "conditions"]));
        assert!(uses.cluster.reach(&["spec", "region"]));
        assert!(!uses.cluster.reach(&["status", "apiEnablements"]));
        assert!(!uses.cluster.reach(&["metadata", "annotations"]));
        assert!(!uses.binding.reach(&["metadata"]));
        let all = Program::parse("size(cluster) > 0", Kind::Bool)
            .unwrap()
            .uses;
        assert!(all.cluster.reach(&["status", "apiEnablements"]));
        assert!(all.binding.is_empty());
    }
}
