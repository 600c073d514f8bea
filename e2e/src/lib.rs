//! Support for the end-to-end tests: control planes, fault injection, the conformance corpus and the load generator.
//!
//! The same tests can run against three kinds of API server:
//!
//! - by default, the embedded API server,
//! - a real kube-apiserver with etcd, if `KUBEBUILDER_ASSETS` names a folder with both programs,
//! - an existing cluster, if `BERTH_E2E_KUBECONFIG` names its kubeconfig.
//!
//! Detector and scheduler run in the process of the test. An existing cluster must therefore run no detector and no
//! scheduler. Tests against an existing cluster run one after the other.
//!
//! | Module | Content |
//! |---|---|
//! | [`plane`] | control plane with controllers, a scheduler and members |
//! | [`bare_control_plane`] | control plane without controllers and scheduler |
//! | [`eventually`](mod@eventually) | polling until a condition is met |
//! | [`events`] | Kubernetes events that tests wait for |
//! | [`objects`] | objects in JSON: requests and waits |
//! | [`program`] | programs that run as processes |
//! | [`sample`] | clusters and bindings for tests of a scheduler without controllers |
//! | [`scheduler_fixture`] | scheduler with four clusters, for tests of plugins and extenders |
//! | [`example_extender`] | runner of the example extenders |
//! | [`proxy`] | fault-injecting proxy |
//! | [`kubectl`] | runner of kubectl |
//! | [`conformance`] | comparison of scheduling decisions with Karmada's decisions |
//! | [`detector_cases`] | recorded cases of Karmada's detector |
//! | [`record`](mod@record) | recorder of Karmada's behaviour |
//! | [`load`] | scenarios of the load generator |

pub mod bare_control_plane;
mod bootstrap;
pub mod conformance;
pub mod detector_cases;
pub mod events;
pub mod eventually;
pub mod example_extender;
mod kube_apiserver;
pub mod kubectl;
pub mod load;
pub mod objects;
pub mod plane;
pub mod program;
pub mod proxy;
pub mod record;
pub mod sample;
pub mod scheduler_fixture;

pub use bare_control_plane::{BareControlPlane, RunningScheduler};
pub use bootstrap::client_of;
pub use eventually::eventually;
pub use kube_apiserver::KubeApiserver;
pub use objects::Objects;
pub use plane::{Plane, Setup};
pub use program::Program;
pub use scheduler_fixture::SchedulerFixture;
