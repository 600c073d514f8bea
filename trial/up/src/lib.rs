//! The servers of `berth up`: a control plane and simulated members in one process. They are for trial and tests.
//!
//! - [`servers`]: the servers of one `berth up`, and the simulation in its members.
//! - [`bootstrap`]: the objects that make an API server a control plane of Karmada.
//! - [`admission`]: Karmada's admission rules, as a part of an API server.
//! - [`quota_admission`]: enforcement of quotas, as a part of the API server.
//! - [`cluster_proxy`]: Karmada's proxy to the members, as a part of the API server.
//! - [`fleet`], [`members`]: the simulated members: their Cluster manifests, and their servers with nodes and pods.
//! - [`fault_injection`]: the task that makes members unreachable.
//! - [`storage`]: the data folder of the servers.
//! - [`instance`], [`kubeconfig`]: the files through which other commands find the servers.
//! - [`preview_server`]: the server in which `berth simulate` validates manifests.
//! - [`open_files`]: the limit of open files.
//!
//! The crate knows no command lines. `berth` starts the servers, and runs controllers, scheduler and dashboard with them.

pub mod admission;
pub mod bootstrap;
pub mod cluster_proxy;
pub mod fault_injection;
pub mod fleet;
pub mod instance;
pub mod kubeconfig;
pub mod members;
pub mod open_files;
pub mod preview_server;
pub mod quota_admission;
pub mod servers;
pub mod storage;
