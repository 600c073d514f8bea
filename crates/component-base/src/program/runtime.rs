//! The async runtime of a program. It installs the TLS provider, gives memory back after a peak, and limits the duration
//! of the shutdown.

use std::io;
use std::time::Duration;

use super::memory_peaks;

/// Maximum time that the shutdown waits for remaining tasks.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs a program. After the program ends, waits up to a second for its remaining tasks.
///
/// # Errors
/// When the threads of the runtime cannot be started.
pub fn run<T>(work: impl Future<Output = T>) -> io::Result<T> {
    // All crates that use TLS share this provider.
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        tracing::debug!("a TLS provider is installed already");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.spawn(memory_peaks::give_back());
    let outcome = runtime.block_on(work);
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    Ok(outcome)
}
