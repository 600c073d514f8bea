//! Limit of open files, which also bounds the number of connections.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the soft limit to the hard limit, as the Go runtime does.
pub fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "cannot raise the limit of open files");
    }
}
