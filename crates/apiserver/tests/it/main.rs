//! Drives a running server with the clients people use: kube over TLS, and kubectl where it is installed.

mod admission;
mod collection;
mod custom;
mod harness;
mod kubectl;
mod objects;
mod security;
mod watching;
