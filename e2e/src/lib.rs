//! Support for the end-to-end tests: control planes, fault injection, the conformance corpus and the load generator.
//!
//! The same tests run against three kinds of control plane: the embedded one (the default), a real kube-apiserver with
//! etcd if `KUBEBUILDER_ASSETS` names a folder with both, and an existing cluster if `BERTH_E2E_KUBECONFIG` names its
//! kubeconfig. Detector and scheduler run in the process of the test, so an existing cluster must not run its own; its
//! tests run one after the other.
//!
//! | Module | Content |
//! |---|---|
//! | [`plane`] | control plane with controllers, scheduler and members |
//! | [`bare_control_plane`] | control plane without controllers |
//! | [`eventually`](mod@eventually) | polling for conditions |
//! | [`proxy`] | fault-injecting proxy |
//! | [`kubectl`] | runner of kubectl |
//! | [`conformance`] | comparison with Karmada's decisions |
//! | [`load`] | load generator |

pub mod bare_control_plane;
mod bootstrap;
pub mod conformance;
pub mod eventually;
pub mod kubectl;
pub mod load;
pub mod plane;
pub mod proxy;
mod real_server;

pub use bare_control_plane::{BareControlPlane, RunningScheduler};
pub use eventually::eventually;
pub use plane::{Plane, Setup};
pub use real_server::RealServer;
