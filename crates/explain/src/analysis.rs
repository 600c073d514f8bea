//! The entry point of the crate: the function that decides a case, builds the report, and adds the changes that would
//! alter the decision.

use berth_engine::{Engine, RequestError};

use crate::changed_case::{Case, Simulation};
use crate::report::Report;
use crate::search::{self, Limits};

/// Explains the decision about a case, and searches for the smallest changes that would alter the decision.
///
/// # Errors
/// Returns an error if the binding has no placement, or if a requested quantity is malformed.
pub fn explain(
    engine: &mut Engine,
    case: &Case<'_>,
    limits: &Limits,
) -> Result<Report, RequestError> {
    let mut simulation = Simulation::new(engine, case);
    let explained = simulation.explain(&[])?;
    let resource = &case.binding.spec.resource;
    let mut report = Report::new(
        &explained.request,
        &explained.outcome,
        &explained.explanation,
    )
    .with_resource(resource.namespace.as_deref(), &resource.name);
    search::add_fixes(&mut report, &mut simulation, limits);
    Ok(report)
}
