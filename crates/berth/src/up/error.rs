//! Why `berth up` does not start, or ends.

use std::net::SocketAddr;

use berth_apimachinery::api_error::api_error_message;
use berth_apiserver::{DataDirError, StartError, StorageError};
use berth_controllers::detector::OptionsError;
use berth_scheduler::ServiceError;

use crate::controllers::controller_set::ControllerSetError;
use crate::fleet::FleetError;
use crate::instance::InstanceError;
use crate::join::JoinError;
use crate::kubeconfig::KubeconfigError;
use crate::members::MemberError;

/// Why the control plane could not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    /// The fleet file cannot be used.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// The kubeconfig cannot be written.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// Another one runs.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// A member does not run.
    #[error(transparent)]
    Member(#[from] MemberError),
    /// A member cannot join.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The port is taken.
    #[error(
        "port {} of {} is in use: is a `berth up` running already? Choose another --port", .0.port(), .0.ip()
    )]
    PortInUse(SocketAddr),
    /// Nobody can listen there.
    #[error(
        "cannot listen at {0}: {1}; --bind-address takes an address of this machine, --port a port that you may use"
    )]
    Address(SocketAddr, std::io::Error),
    /// The data folder cannot be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The storage of a server has ended.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The API server cannot start.
    #[error("cannot start the API server: {0}")]
    Server(StartError),
    /// A definition cannot be installed.
    #[error("cannot install {name}: {reason}")]
    Definition {
        /// Its name.
        name: String,
        /// Why not.
        reason: String,
    },
    /// An object of the fleet, or a namespace, is refused.
    #[error("cannot create {what}: {}", api_error_message(.source))]
    Object {
        /// What it is.
        what: String,
        /// Why not.
        source: Box<kube::Error>,
    },
    /// A flag of the detector cannot be understood.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// One of the controllers cannot start, or ended.
    #[error(transparent)]
    Controllers(#[from] ControllerSetError),
    /// The scheduler cannot start, or ended.
    #[error("the scheduler: {0}")]
    Scheduler(#[from] ServiceError),
    /// A part ended although nobody asked it to.
    #[error("the {0} ended unexpectedly")]
    Ended(&'static str),
}
