//! The limit of open files: raises the soft limit to the hard limit, because every connection needs a file descriptor.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the soft limit to the hard limit. The Go runtime does the same.
pub fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "cannot raise the limit of open files");
    }
}
