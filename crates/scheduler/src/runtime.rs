//! What is around the work of a program: a TLS provider, threads, and an end that waits for nobody for long.

use std::io;
use std::time::Duration;

/// How long tasks that do not end have at the end.
const FAREWELL: Duration = Duration::from_secs(1);

/// Does the work of a program, and returns when nothing of it runs any more, or a second later.
///
/// # Errors
/// When there can be no threads.
pub fn run<T>(work: impl Future<Output = T>) -> io::Result<T> {
    // Several crates of the tree speak TLS; they share one provider.
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
    runtime.shutdown_timeout(FAREWELL);
    Ok(outcome)
}
