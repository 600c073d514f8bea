//! Errors of `berth simulate`.

use berth_plan::scheduler_endpoint::SchedulerEndpointError;
use berth_plan::simulate::SimulateError;
use berth_scheduler::estimator::EstimatorOptionsError;

/// An error of `berth simulate`.
#[derive(Debug, thiserror::Error)]
pub enum SimulateCommandError {
    /// The simulation ends without a result.
    #[error(transparent)]
    Simulate(#[from] SimulateError),
    /// A flag of the estimators is invalid.
    #[error(transparent)]
    Estimators(#[from] EstimatorOptionsError),
    /// The flags enable estimators without `--against`. The addresses of the estimators are read from a control plane.
    #[error(
        "--enable-scheduler-estimator needs --against CONTEXT: the addresses of estimators are read from a control plane"
    )]
    EstimatorsWithoutControlPlane,
    /// The running scheduler cannot be queried.
    #[error(transparent)]
    Scheduler(#[from] SchedulerEndpointError),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] std::io::Error),
    /// The flag `--fail-on-unscheduled` is set, and a binding cannot be placed or a policy selects nothing.
    #[error("{}", failures(*.bindings, *.selections))]
    Unscheduled {
        /// Number of bindings that cannot be placed.
        bindings: usize,
        /// Number of policies or selectors that select nothing.
        selections: usize,
    },
    /// The user interrupted the command.
    #[error("interrupted")]
    Interrupted,
}

impl SimulateCommandError {
    /// Reports whether the user must correct the command line.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Estimators(_)
            | Self::EstimatorsWithoutControlPlane
            | Self::Simulate(SimulateError::Configuration(_)) => true,
            Self::Scheduler(error) => error.is_usage(),
            _ => false,
        }
    }
}

fn failures(bindings: usize, selections: usize) -> String {
    let bindings = match bindings {
        0 => None,
        1 => Some("1 binding finds no place".to_owned()),
        several => Some(format!("{several} bindings find no place")),
    };
    let selections = match selections {
        0 => None,
        1 => Some("1 policy or selector selects nothing".to_owned()),
        several => Some(format!("{several} policies or selectors select nothing")),
    };
    let failures: Vec<String> = bindings.into_iter().chain(selections).collect();
    failures.join(", ")
}
