//! The analysis of a case: the decision, its report, and the changes that would alter it.

use berth_core::{Engine, RequestError};

use crate::report::Report;
use crate::search::{self, Limits};
use crate::world::{Case, World};

/// Explains a decision, and searches the changes that would alter it.
///
/// # Errors
/// When the binding has no placement or a malformed request.
pub fn explain(
    engine: &mut Engine,
    case: &Case<'_>,
    limits: &Limits,
) -> Result<Report, RequestError> {
    let mut world = World::new(engine, case);
    let explained = world.explain(&[])?;
    let resource = &case.spec.resource;
    let mut report = Report::new(
        &explained.request,
        &explained.outcome,
        &explained.explanation,
    )
    .with_resource(resource.namespace.as_deref(), &resource.name);
    search::add_fixes(&mut report, &mut world, limits);
    Ok(report)
}
