//! The protocol as generated from `proto/`.

#![allow(
    clippy::pedantic,
    clippy::use_self,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]

/// The messages.
pub mod pb {
    include!(concat!(
        env!("OUT_DIR"),
        "/github.com.karmada_io.karmada.pkg.estimator.pb.rs"
    ));
}

/// The service: a client, and a server for who offers it.
pub mod service {
    include!(concat!(
        env!("OUT_DIR"),
        "/github.com.karmada_io.karmada.pkg.estimator.service.rs"
    ));
}
