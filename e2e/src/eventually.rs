//! Waiting for a condition instead of sleeping.

use std::fmt::Display;
use std::time::{Duration, Instant};

use crate::RealServer;

/// How long a condition may take on a machine that runs other tests at the same time.
const PATIENCE: Duration = Duration::from_secs(90);
/// The same where each test has a kube-apiserver and etcd of its own on that machine.
const PATIENCE_WITH_REAL_SERVERS: Duration = Duration::from_mins(3);
const STEP: Duration = Duration::from_millis(20);

/// Asks until the answer is `Ok`, and returns it.
///
/// # Panics
/// With the last `Err` when the patience is over.
#[expect(clippy::panic, reason = "this is how a test fails")]
pub async fn eventually<T, E: Display>(
    what: &str,
    mut ask: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    let patience = if RealServer::assets().is_some() {
        PATIENCE_WITH_REAL_SERVERS
    } else {
        PATIENCE
    };
    let end = Instant::now() + patience;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(reason) if Instant::now() >= end => panic!("waited in vain for {what}: {reason}"),
            Err(_) => tokio::time::sleep(STEP).await,
        }
    }
}

/// Holds when the condition stays true for as long as nothing should happen.
///
/// # Panics
/// With the `Err` of the first answer that is one.
#[expect(clippy::panic, reason = "this is how a test fails")]
pub async fn never<E: Display>(
    what: &str,
    during: Duration,
    mut ask: impl AsyncFnMut() -> Result<(), E>,
) {
    let end = Instant::now() + during;
    while Instant::now() < end {
        if let Err(reason) = ask().await {
            panic!("{what} happened: {reason}");
        }
        tokio::time::sleep(STEP).await;
    }
}
