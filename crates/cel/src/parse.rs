//! Parsing of expressions. The resulting syntax tree contains no macros, because they are expanded.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::parser::Parser;

use super::error::CompileError;
use super::macros;

/// Parses an expression. The parser is recursive: nested expressions need the thread of [`Depth::with_stack`] or
/// [`on_large_stack`].
///
/// # Errors
/// If the text is no expression, or a macro is called wrongly.
///
/// [`Depth::with_stack`]: super::Depth::with_stack
/// [`on_large_stack`]: super::on_large_stack
pub fn parse(source: &str) -> Result<IdedExpr, CompileError> {
    let mut root = parse_without_macros(source)?;
    macros::expand(&mut root)?;
    Ok(root)
}

/// Parses an expression like [`parse`], with the macro `cel.bind(variable, value, expression)`. Kubernetes has this macro
/// only in selectors of devices.
///
/// # Errors
/// If the text is no expression, or a macro is called wrongly.
pub fn parse_with_bindings(source: &str) -> Result<IdedExpr, CompileError> {
    let mut root = parse_without_macros(source)?;
    macros::expand_bindings(&mut root)?;
    macros::expand(&mut root)?;
    Ok(root)
}

/// Parses an expression. Only the macros of the parser are expanded.
fn parse_without_macros(source: &str) -> Result<IdedExpr, CompileError> {
    Parser::new()
        .enable_optional_syntax(true)
        .parse(source)
        .map_err(|errors| match errors.errors.first() {
            Some(first) => CompileError::Syntax {
                line: usize::try_from(first.pos.0).unwrap_or(1),
                column: usize::try_from(first.pos.1).unwrap_or(1),
                message: first.msg.clone(),
            },
            None => CompileError::Other("syntax error".to_owned()),
        })
}
