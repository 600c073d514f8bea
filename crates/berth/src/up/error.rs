//! The error type of `berth up`.

use std::net::SocketAddr;

use berth_apiserver::{DataDirError, StartError, StorageError};
use berth_component_base::endpoints::ListenError;
use berth_controllers::detector::OptionsError;
use berth_dashboard::DashboardError;
use berth_scheduler::ServiceError;
use berth_telemetry::ExportError;
use berth_up::bootstrap::BootstrapError;
use berth_up::fleet::FleetError;
use berth_up::instance::InstanceError;
use berth_up::kubeconfig::KubeconfigError;
use berth_up::members::MemberError;

use crate::controllers::controller_set::ControllerSetError;
use crate::join::JoinError;

/// Reason for which the control plane cannot start, or ends unexpectedly.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    /// The export of traces cannot start.
    #[error(transparent)]
    Tracing(#[from] ExportError),
    /// The fleet file cannot be used.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// The kubeconfig cannot be written.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// Another `berth up` uses the same kubeconfig, or the file that describes it cannot be used.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// The server of a member cannot start.
    #[error(transparent)]
    Member(#[from] MemberError),
    /// A member cannot be registered.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The port is in use.
    #[error(
        "port {} of {} is in use: is a `berth up` running already? Choose another --port", .0.port(), .0.ip()
    )]
    PortInUse(SocketAddr),
    /// The API server cannot listen at the address or port.
    #[error(
        "cannot listen at {0}: {1}; --bind-address takes an address of this machine, --port a port that you may use"
    )]
    Address(SocketAddr, std::io::Error),
    /// The data folder cannot be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The storage of a server failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The API server cannot start.
    #[error("cannot start the API server: {0}")]
    Server(StartError),
    /// An object cannot be created in the control plane.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    /// A flag of the detector is invalid.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// A controller cannot start, or failed.
    #[error(transparent)]
    Controllers(#[from] ControllerSetError),
    /// The scheduler cannot start, or failed.
    #[error("the scheduler: {0}")]
    Scheduler(#[from] ServiceError),
    /// The server of the estimators cannot listen.
    #[error("the estimators: {0}")]
    Estimators(#[from] ListenError),
    /// The dashboard cannot start, or failed.
    #[error(transparent)]
    Dashboard(#[from] DashboardError),
    /// A component ended before the control plane was stopped.
    #[error("the {0} ended unexpectedly")]
    Ended(&'static str),
}
