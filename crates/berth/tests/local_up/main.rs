//! `hack/local-up.sh` and the manifests that it applies, without Docker and without a network: the script
//! runs with a PATH that holds what every system has, and stand-ins for docker, kind and kubectl.

mod command_line;
mod leaving;
mod machine;
mod manifests;
mod running;
mod tools;
