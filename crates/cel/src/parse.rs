//! Parsing of expressions. The resulting syntax tree contains no macros, because they are expanded.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::parser::Parser;

use super::depth::{self, Depth};
use super::macros;

/// Parses an expression. Returns its syntax tree and an upper bound on the depth of the tree.
pub fn parse(source: &str) -> Result<(IdedExpr, Depth), String> {
    let depth = depth::measure(source)?;
    let root = with_stack(depth, || -> Result<IdedExpr, String> {
        let mut root = Parser::new()
            .enable_optional_syntax(true)
            .parse(source)
            .map_err(|errors| {
                let first = errors.errors.first();
                first.map_or_else(
                    || "syntax error".to_owned(),
                    |e| format!("line {}, column {}: {}", e.pos.0, e.pos.1, e.msg),
                )
            })?;
        macros::expand(&mut root)?;
        Ok(root)
    })??;
    Ok((root, depth))
}

/// The stack size in bytes for the deepest accepted expression. It suffices without compiler optimisation.
const STACK: usize = 64 << 20;

/// Runs `work`. If an expression of this depth needs more stack than an ordinary thread has, uses a thread with a
/// larger stack.
pub fn with_stack<T: Send>(depth: Depth, work: impl FnOnce() -> T + Send) -> Result<T, String> {
    if !depth.needs_stack() {
        return Ok(work());
    }
    let done = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        thread.spawn_scoped(scope, work).ok()?.join().ok()
    });
    done.ok_or_else(|| "cannot start a thread for a deeply nested expression".to_owned())
}
