//! Helpers for the tests of this target: the server under test, the requests, and comparisons of responses.

pub(crate) mod content_type;
pub(crate) mod definitions;
pub(crate) mod objects;
pub(crate) mod server;

pub(crate) use server::server;
