//! A read-only web page about a control plane: the fleet, the bindings, their decisions and their moves.
//!
//! - [`Dashboard`]: the server; `access` checks each request
//! - `store`: compact rows of clusters and bindings, kept by watches; `query` selects the rows of a page
//! - `pages`: the views; they write HTML with `html`, which escapes by type
//!
//! The crate reads only. It knows neither the command line nor how a decision is explained or a change simulated:
//! [`Explain`] and [`Simulate`] do.

mod access;
mod explainer;
mod html;
mod pages;
mod query;
mod server;
mod simulation;
mod simulations;
mod store;

pub use explainer::{BindingName, Explain, Search};
pub use server::{Dashboard, DashboardError};
pub use simulation::{Change, Planned, Simulate, Simulation};
