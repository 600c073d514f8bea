//! HTTP extenders on a running control plane: what they are asked, what follows from their answers, and that
//! a slow or broken one harms nobody else.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

mod adapter;
mod changing;
mod example;
mod failing;
mod fake;
mod placing;
mod preempting;
mod scene;
