//! Polling until a condition is met, instead of sleeping for a fixed time.

use std::fmt::Display;
use std::time::{Duration, Instant};

use crate::KubeApiserver;

/// Time limit for a condition. The limit is long because other tests may run on the machine at the same time.
const TIMEOUT: Duration = Duration::from_secs(90);
/// Time limit for a condition if each test runs its own kube-apiserver and etcd.
const TIMEOUT_WITH_REAL_SERVERS: Duration = Duration::from_mins(3);
/// The shortest pause between two checks.
const STEP: Duration = Duration::from_millis(20);
/// The longest pause between two checks.
const LONGEST_STEP: Duration = Duration::from_millis(500);

/// Calls `check` repeatedly until it returns `Ok`, and returns the value. `what` describes the condition in the panic
/// message. The pause after a check is as long as the check took, so that slow checks of many objects leave processor
/// time to the tested components.
///
/// # Panics
/// If `check` still fails at the time limit. The message contains the last error.
#[expect(clippy::panic, reason = "this is how a test fails")]
pub async fn eventually<T, E: Display>(
    what: &str,
    mut check: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    let timeout = if KubeApiserver::assets().is_some() {
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
