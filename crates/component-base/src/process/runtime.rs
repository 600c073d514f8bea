//! Async runtime of a program, with a TLS provider and a bounded shutdown.

use std::io;
use std::time::Duration;

/// Time limit of the shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs a program and waits up to a second for its remaining tasks.
///
/// # Errors
/// When threads cannot be started.
pub fn run<T>(work: impl Future<Output = T>) -> io::Result<T> {
    // Several crates use TLS; they share one provider.
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        tracing::debug!("a TLS provider is installed already");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    Ok(outcome)
}
