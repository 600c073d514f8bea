//! Polling for a condition instead of sleeping.

use std::fmt::Display;
use std::time::{Duration, Instant};

use crate::RealServer;

/// Time limit of a condition, on a machine that runs other tests concurrently.
const TIMEOUT: Duration = Duration::from_secs(90);
/// Time limit if each test runs its own kube-apiserver and etcd.
const TIMEOUT_WITH_REAL_SERVERS: Duration = Duration::from_mins(3);
/// The shortest pause between two checks.
const STEP: Duration = Duration::from_millis(20);
/// The longest pause between two checks.
const LONGEST_STEP: Duration = Duration::from_millis(500);

/// Polls `check` until it returns `Ok`, and returns the value. The pause between two checks is as long as a check takes,
/// so that checks of many objects leave the processor to the components that the test waits for.
///
/// # Panics
/// With the last error when the time limit is reached.
#[expect(clippy::panic, reason = "this is how a test fails")]
pub async fn eventually<T, E: Display>(
    what: &str,
    mut check: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    let timeout = if RealServer::assets().is_some() {
        TIMEOUT_WITH_REAL_SERVERS
    } else {
        TIMEOUT
    };
    let end = Instant::now() + timeout;
    loop {
        let began = Instant::now();
        match check().await {
            Ok(value) => return value,
            Err(reason) if Instant::now() >= end => {
                panic!("timed out waiting for {what}: {reason}")
            }
            Err(_) => tokio::time::sleep(began.elapsed().clamp(STEP, LONGEST_STEP)).await,
        }
    }
}
