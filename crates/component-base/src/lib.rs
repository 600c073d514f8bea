//! The parts that Berth's programs share: command line, clients, leader election, the HTTP endpoints of probes and
//! metrics, and common metrics.
//!
//! The crate contains no code of a particular component, and knows nothing about policies, bindings and decisions.
//!
//! | module | contents |
//! |---|---|
//! | [`program`] | command line, ignored flags, log output, progress messages, signals and the async runtime of a program |
//! | [`mod@go_duration`] | values of flags in Go's notation |
//! | [`kube_client`], [`user_agent`] | clients of API servers: kubeconfig, credentials, request limit, `User-Agent` |
//! | [`list_watch`] | lists and watches of objects, which recover from failures |
//! | [`paged_list`] | lists that are read in several requests |
//! | [`leader_election`] | leader election |
//! | [`endpoints`] | `/healthz`, `/livez`, `/readyz` and `/metrics`, and the server of these endpoints |
//! | [`access`] | access control of the endpoints, without a client: a trait for the check of permissions |
//! | [`access_flags`] | flags for the access control, and its check of permissions by an API server |
//! | `secure_listener`, [`serving_certificate`], [`certificate_files`] | TLS of a server, with a certificate that can be replaced |
//! | [`connections`] | accept loop and TLS handshake of servers with protocols of their own |
//! | [`bind_address`] | the address flags of the endpoints |
//! | [`blocking`] | work that holds a thread of the runtime |
//! | [`metrics`] | metrics of process, build, client requests, work queues and leader election |

pub mod access;
pub mod access_flags;
pub mod bind_address;
pub mod blocking;
pub mod certificate_files;
pub mod connections;
pub mod endpoints;
pub mod go_duration;
pub mod kube_client;
pub mod leader_election;
pub mod list_watch;
pub mod metrics;
pub mod paged_list;
pub mod program;
mod secure_listener;
pub mod serving_certificate;
pub mod user_agent;
