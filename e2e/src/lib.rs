//! What the end-to-end tests stand on: a running control plane, and ways to look at it.
//!
//! The same tests run against three kinds of control plane: the embedded one (the default), a real
//! kube-apiserver with etcd where `KUBEBUILDER_ASSETS` names a folder with both, and an existing cluster
//! where `BERTH_E2E_KUBECONFIG` names its kubeconfig. Detector and scheduler run in the process of the test,
//! so that cluster must have none of its own; its tests run one after the other.

pub mod bare;
pub mod conformance;
pub mod eventually;
mod furnish;
pub mod hostile;
pub mod kubectl;
pub mod load;
pub mod plane;
pub mod proxy;
mod real_server;

pub use bare::{Bare, Running};
pub use eventually::eventually;
pub use plane::{Plane, Setup};
pub use real_server::RealServer;
