//! Errors of `berth drain` and `berth uncordon`.

use berth_api::BindingKey;
use berth_apimachinery::api_error::api_error_message;
use berth_component_base::kube_client::ConnectError;
use berth_plan::control_plane_lists::ListError;
use berth_plan::scheduler_configuration::ConfigurationError;
use berth_plan::scheduler_endpoint::SchedulerEndpointError;
use berth_plan::what_if::PredictDrainError;

use crate::clusters::ClustersError;

/// An error of `berth drain` and `berth uncordon`.
#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    /// The command cannot connect to the control plane.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The member cannot be cordoned or uncordoned.
    #[error(transparent)]
    Clusters(#[from] ClustersError),
    /// The control plane refuses a list.
    #[error(transparent)]
    List(#[from] ListError),
    /// No preview is possible.
    #[error(transparent)]
    Preview(#[from] PredictDrainError),
    /// The configuration of the scheduler cannot be used.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// The running scheduler cannot be queried.
    #[error(transparent)]
    Scheduler(#[from] SchedulerEndpointError),
    /// A request to the control plane failed.
    #[error("cannot {doing}: {}", api_error_message(.source))]
    Refused {
        /// The attempted action, such as `evict shop/web-deployment from member1`.
        doing: String,
        /// The error of the request.
        source: Box<kube::Error>,
    },
    /// Other clients have changed a binding during every attempt.
    #[error(
        "cannot change {0}: other clients change it all the time; run the same command to continue"
    )]
    Conflicts(BindingKey),
    /// The user has interrupted the command before it wrote anything.
    #[error("interrupted: nothing was written")]
    InterruptedPreview,
    /// The user has interrupted the command.
    #[error(
        "interrupted: {left} of {all} have left {cluster}; run the same command to continue, or \
         `berth uncordon --bring-back {cluster}` to go back"
    )]
    Interrupted {
        /// Name of the member.
        cluster: String,
        /// Number of the bindings that have left.
        left: usize,
        /// Number of the bindings that leave.
        all: usize,
    },
    /// The time of `--timeout` has passed.
    #[error(
        "{left} of {all} have left {cluster} after {seconds} s; run the same command to continue, or \
         `berth uncordon --bring-back {cluster}` to go back"
    )]
    TimedOut {
        /// Name of the member.
        cluster: String,
        /// The waiting time, in seconds.
        seconds: u64,
        /// Number of the bindings that have left.
        left: usize,
        /// Number of the bindings that leave.
        all: usize,
    },
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Write(#[from] std::io::Error),
}

impl DrainError {
    /// Reports whether the user must correct the command line.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Configuration(_) | Self::Preview(PredictDrainError::Configuration(_)) => true,
            Self::Clusters(error) => error.is_usage(),
            Self::Scheduler(error) => error.is_usage(),
            _ => false,
        }
    }

    /// Creates the error of a request.
    pub(super) fn refused(doing: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Refused {
            doing,
            source: Box::new(source),
        }
    }
}
