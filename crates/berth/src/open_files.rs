//! The number of files that the process may open. Each connection is one.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the soft limit to the hard one, as programs in Go do by themselves.
pub fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "cannot raise the limit of open files");
    }
}
