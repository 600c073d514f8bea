//! The loop over the affinity terms of a placement. The engine runs one attempt for each term, and the first feasible
//! term decides.

use std::sync::Arc;

use super::{Decision, Engine, Trace};
use crate::estimate::Assumed;
use crate::fleet::Snapshot;
use crate::framework::{AttemptContext, CycleState};
use crate::outcome::{FailedTerm, Outcome, Placement};
use crate::request::{Mode, Request};

impl Engine {
    pub(super) fn try_terms<T: Trace>(
        &mut self,
        snapshot: &Snapshot,
        request: &Request,
        assumed: &Assumed,
        trace: &mut T,
    ) -> Decision {
        let unit = self.unit(request);
        let mut state = CycleState::new();
        let terms = request.placement().terms();
        if terms.is_empty() {
            trace.term(snapshot, None);
            let attempt = AttemptContext::new(snapshot, request, None, unit);
            let result = self.attempt(&attempt, assumed, &mut state, trace);
            let outcome = Outcome {
                failed_terms: Vec::new(),
                result: result.map(|assigned| Placement {
                    targets: assigned.targets,
                    affinity: None,
                    waiting: assigned.waiting,
                }),
            };
            return Decision { outcome, state };
        }
        let mut failed_terms = Vec::new();
        for (index, term) in terms.iter().enumerate().skip(first_term(request)) {
            let name = term.name();
            trace.term(snapshot, Some(name));
            // If several terms have this name, the attempt uses the first of these terms.
            let term = request.placement().term_named(name);
            let attempt = AttemptContext::new(snapshot, request, term, unit);
            state = CycleState::new();
            match self.attempt(&attempt, assumed, &mut state, trace) {
                Ok(assigned) => {
                    let outcome = Outcome {
                        failed_terms,
                        result: Ok(Placement {
                            targets: assigned.targets,
                            affinity: Some(Arc::clone(name)),
                            waiting: assigned.waiting,
                        }),
                    };
                    return Decision { outcome, state };
                }
                Err(error) => failed_terms.push(FailedTerm { index, error }),
            }
        }
        let first = failed_terms.first().map(|failed| failed.error.clone());
        let outcome = Outcome {
            result: first.map_or_else(|| Ok(Placement::default()), Err),
            failed_terms,
        };
        Decision { outcome, state }
    }
}

/// Returns the index of the first affinity term to try. This is the index of the term in use. It is 0 if no term is in
/// use, or if rescheduling was requested.
fn first_term(request: &Request) -> usize {
    match request.observed_term() {
        Some(name) if request.mode() == Mode::Steady => {
            request.placement().term_named(name).unwrap_or(0)
        }
        _ => 0,
    }
}
