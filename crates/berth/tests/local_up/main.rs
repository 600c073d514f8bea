//! Tests of `hack/local-up.sh` and of the manifests that the script applies. The tests need no Docker and no network:
//! the PATH of the script contains fake versions of docker, kind and kubectl.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

mod command_line;
mod control_plane;
mod down;
mod karmada;
mod machine;
mod manifests;
mod runs;
mod tools;
