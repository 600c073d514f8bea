//! The factory of the plugin `Expression`, which filters and scores clusters with CEL expressions. The crate
//! `berth-expression` implements the plugin.

use std::sync::Arc;

pub use berth_expression::Expression;
use berth_expression::ExpressionArgs;

use crate::framework::{Args, ArgsError, EventKind, FactoryError, Handle, Plugin, Registration};

/// Creates the plugin from its arguments.
///
/// # Errors
/// If the arguments or an expression are invalid. The error contains the path of the argument. For an expression, the
/// error also contains the position of the mistake.
pub(crate) fn plugin(args: &Args, _: &Handle) -> Result<Plugin, FactoryError> {
    let expression = Arc::new(expression(args)?);
    let mut plugin = Plugin::new(Expression::NAME)
        .reads_objects()
        .wakes_on(Registration::any(EventKind::Cluster));
    if expression.reads_scores() {
        plugin = plugin
            .reads_scores()
            .wakes_on(Registration::any(EventKind::ClusterScores));
    }
    if expression.reads_binding() {
        plugin = plugin.pre_filter(expression.clone());
    }
    if expression.filters() {
        plugin = plugin.filter(expression.clone());
    }
    if expression.scores() {
        plugin = plugin.score(expression);
    }
    Ok(plugin)
}

fn expression(args: &Args) -> Result<Expression, ArgsError> {
    let args: ExpressionArgs = args.parse_required()?;
    Expression::new(args).map_err(|error| ArgsError {
        path: error.path,
        message: error.message,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_name_the_argument() {
        for (args, path) in [
            (
                json!({ "score": [{ "expression": "1", "weight": 0 }] }),
                "score[0].weight",
            ),
            (
                json!({ "filter": [{ "expression": "1" }] }),
                "filter[0].expression",
            ),
        ] {
            let error = expression(&Args::new(Some(args))).unwrap_err();
            assert_eq!(error.path, path);
        }
        assert!(expression(&Args::default()).is_err());
    }
}
