//! Tests of `hack/local-up.sh` and of the manifests that it applies, without Docker and network: PATH has only system
//! tools, and stand-ins for docker, kind and kubectl.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

mod command_line;
mod control_plane;
mod down;
mod karmada;
mod machine;
mod manifests;
mod runs;
mod tools;
