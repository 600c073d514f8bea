//! A read-only web server that shows a control plane: its clusters, its bindings, the scheduling decision about each
//! binding, and the moves of bindings between clusters.
//!
//! - [`Dashboard`] is the HTTP server. `access` checks each request.
//! - `store` has compact rows of clusters and bindings, which watches update. `binding_query` selects the rows of one
//!   page.
//! - `simulation_runner` runs one simulation at a time, and keeps the last results.
//! - `pages` has the HTML pages. `html` writes their text and escapes it.
//!
//! The crate only reads from the control plane, and does not depend on the command line. `berth-plan` explains the
//! decisions and simulates the changes.

mod access;
mod binding_query;
mod html;
mod pages;
#[cfg(test)]
mod response_time_tests;
mod server;
mod simulation_runner;
mod store;

pub use server::{Clients, Dashboard, DashboardError};
