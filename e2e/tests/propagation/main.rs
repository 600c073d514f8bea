//! What happens after placement, with a control plane and several members: resources arrive, stay as they should
//! be, report back, and go.
//!
//! Where `KUBEBUILDER_ASSETS` names a folder with `kube-apiserver` and `etcd`, each member is one of these.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is how a test fails"
)]
#![expect(
    clippy::needless_pass_by_value,
    reason = "json! literals are handed over as they are"
)]
#![expect(unreachable_pub, reason = "a test binary exports nothing")]

mod arriving;
mod clusters;
mod documented;
mod evicting;
mod faults;
mod fleet;
mod following;
mod forging;
mod kinds;
mod manifests;
mod namespaces;
mod overriding;
mod owning;
mod proxied;
mod reporting;
mod suspending;
mod taking_along;
mod variants;
