//! Leader election on a Lease. The protocol is client-go's, so that Berth's and Karmada's programs can compete for one
//! Lease.
//!
//! A candidate does not trust the clocks of other candidates: a record in the Lease is expired when the record has not
//! changed for its lease duration, measured with the local clock. A leader that cannot renew the Lease within the renew
//! deadline stops leading. The renew deadline is shorter than the lease duration, so the leader stops before another
//! candidate becomes leader.

mod changes;
pub mod flags;
mod wall_clock;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_apimachinery::api_error::{api_error_message, has_code, is_unreachable};
use berth_apimachinery::repeated_failure::RepeatedFailure;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::changes::Changes;
use self::wall_clock::WallClock;
use crate::kube_client::within;

/// Number of reads in each retry period by a standby that cannot watch the Lease.
const READS_PER_PERIOD: u32 = 4;
/// Maximum number of attempts to release the Lease. A renewal that is still running may cause a conflict.
const RELEASE_ATTEMPTS: usize = 3;

/// Options of leader election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseOptions {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Unique identity of this candidate.
    pub identity: String,
    /// Time after which a standby may replace a leader that does not renew the Lease.
    pub lease_duration: Duration,
    /// Time after which a leader that cannot renew the Lease stops leading. Shorter than the lease duration.
    pub renew_deadline: Duration,
    /// Interval between attempts to acquire or renew the Lease.
    pub retry_period: Duration,
}

/// Contradicting durations of leader election.
#[derive(Debug, thiserror::Error)]
pub enum LeaseOptionsError {
    /// A leader could still lead after its lease has expired.
    #[error(
        "--leader-elect-lease-duration ({lease:?}) must be longer than --leader-elect-renew-deadline ({renew:?})"
    )]
    LeaseTooShort {
        /// The lease duration.
        lease: Duration,
        /// The renew deadline.
        renew: Duration,
    },
    /// A leader would have no time for a second attempt to renew the Lease.
    #[error(
        "--leader-elect-renew-deadline ({renew:?}) must be longer than --leader-elect-retry-period ({retry:?})"
    )]
    RenewTooShort {
        /// The renew deadline.
        renew: Duration,
        /// The retry period.
        retry: Duration,
    },
}

impl LeaseOptions {
    /// Checks that a leader stops leading before another candidate becomes leader, and that a leader has time for a
    /// second attempt to renew the Lease.
    ///
    /// # Errors
    /// When the durations contradict each other.
    pub fn check(&self) -> Result<(), LeaseOptionsError> {
        if self.lease_duration <= self.renew_deadline {
            return Err(LeaseOptionsError::LeaseTooShort {
                lease: self.lease_duration,
                renew: self.renew_deadline,
            });
        }
        if self.renew_deadline <= self.retry_period {
            return Err(LeaseOptionsError::RenewTooShort {
                renew: self.renew_deadline,
                retry: self.retry_period,
            });
        }
        Ok(())
    }

    /// Creates an identity from the host name and a random ID, as client-go does.
    pub fn new_identity() -> String {
        let file = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = match file.trim() {
            "" => "localhost",
            name => name,
        };
        format!("{host}_{}", uuid::Uuid::new_v4())
    }
}

/// Leadership state of this process, shared with all writers.
#[derive(Clone, Debug)]
pub struct Leadership(Arc<Mutex<Tenure>>);

#[derive(Clone, Copy, Debug)]
enum Tenure {
    /// Leader election is off.
    Unlimited,
    /// Leading until this time. Each renewal extends the time.
    Until(Instant),
    /// Not leading.
    None,
}

impl Leadership {
    /// Creates the leadership of a process without leader election.
    pub fn unlimited() -> Self {
        Self(Arc::new(Mutex::new(Tenure::Unlimited)))
    }

    fn none() -> Self {
        Self(Arc::new(Mutex::new(Tenure::None)))
    }

    /// Reports whether this process leads, and may therefore send a write now.
    pub fn holds(&self) -> bool {
        match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Tenure::Unlimited => true,
            Tenure::Until(end) => Instant::now() < end,
            Tenure::None => false,
        }
    }

    fn set(&self, tenure: Tenure) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = tenure;
    }
}

/// A candidate for leadership.
#[derive(Debug)]
pub struct Candidate {
    api: Api<Lease>,
    options: LeaseOptions,
    leadership: Leadership,
    observed: Option<(LeaseSpec, Instant)>,
    wall: WallClock,
    failure: RepeatedFailure,
}

enum Attempt {
    Leading(Instant),
    Following,
    Failed,
}

impl Candidate {
    /// Creates a candidate and its leadership state.
    pub fn new(client: kube::Client, options: LeaseOptions) -> (Self, Leadership) {
        let leadership = Leadership::none();
        let api = Api::namespaced(client, &options.namespace);
        (
            Self {
                api,
                options,
                leadership: leadership.clone(),
                observed: None,
                wall: WallClock::default(),
                failure: RepeatedFailure::default(),
            },
            leadership,
        )
    }

    /// Sets the clock for the timestamps in the records.
    #[must_use]
    pub fn with_wall_clock(mut self, clock: WallClock) -> Self {
        self.wall = clock;
        self
    }

    /// Waits until this candidate leads. Returns `false` if the token is cancelled first.
    ///
    /// The candidate reads the Lease in every retry period, as client-go does. It also watches the Lease, so that a
    /// standby becomes leader as soon as the leader releases the Lease.
    pub async fn acquire(&mut self, cancel: &CancellationToken) -> bool {
        let lease = self.lease();
        tracing::info!("attempting to acquire leader lease {lease}...");
        let mut changes = Changes::of(self.api.clone(), &self.options.name);
        loop {
            let attempt = tokio::select! {
                () = cancel.cancelled() => return false,
                attempt = self.attempt(self.attempt_timeout()) => attempt,
            };
            let pause = match attempt {
                Attempt::Leading(since) => {
                    self.extend(since);
                    let identity = &self.options.identity;
                    tracing::info!(identity, "successfully acquired lease {lease}");
                    return true;
                }
                // Without a watch, frequent reads show early that the Lease is vacant. Reads are cheap.
                Attempt::Following if !changes.are_watched() => {
                    self.options.retry_period / READS_PER_PERIOD
                }
                Attempt::Following | Attempt::Failed => self.options.retry_period,
            };
            tokio::select! {
                () = cancel.cancelled() => return false,
                () = tokio::time::sleep(pause) => {}
                () = self.wait_until_vacant(&mut changes) => {}
            }
        }
    }

    /// Waits until the Lease is released, deleted or expired.
    async fn wait_until_vacant(&mut self, changes: &mut Changes) {
        loop {
            let expiry = self.expires_at();
            let expired = async {
                match expiry {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let seen = tokio::select! {
                seen = changes.next() => seen,
                () = expired => return,
            };
            match seen.and_then(|lease| lease.spec) {
                Some(spec) if !self.has_expired(&spec) => {}
                _ => return,
            }
        }
    }

    /// Returns the expiry of the last observed record, or `None` if there is no record or the record has expired.
    fn expires_at(&self) -> Option<Instant> {
        let (seen, at) = self.observed.as_ref()?;
        Some(*at + self.lease_duration_of(seen)).filter(|expires| *expires > Instant::now())
    }

    /// Renews the Lease. Returns `false` when the leadership is lost, and `true` when the token is cancelled. After a
    /// cancellation, the candidate still leads until [`Candidate::release`].
    pub async fn hold(&mut self, cancel: &CancellationToken) -> bool {
        let mut deadline = Instant::now() + self.options.renew_deadline;
        loop {
            tokio::select! {
                () = cancel.cancelled() => return true,
                () = tokio::time::sleep(self.options.retry_period) => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let attempt = tokio::select! {
                () = cancel.cancelled() => return true,
                attempt = self.attempt(left.min(self.attempt_timeout())) => attempt,
            };
            match attempt {
                Attempt::Leading(since) => {
                    self.extend(since);
                    deadline = since + self.options.renew_deadline;
                }
                Attempt::Failed if Instant::now() < deadline => {}
                Attempt::Failed | Attempt::Following => {
                    self.leadership.set(Tenure::None);
                    self.log_loss(&attempt);
                    return false;
                }
            }
        }
    }

    /// Releases the Lease, so that another candidate can become leader before the Lease expires.
    pub async fn release(&mut self) {
        self.leadership.set(Tenure::None);
        let released = within(self.attempt_timeout(), self.release_lease()).await;
        match released {
            Ok(()) => tracing::info!("released lease {}", self.lease()),
            Err(error) => {
                let (lease, error) = (self.lease(), api_error_message(&error));
                tracing::warn!(%error, "cannot release lease {lease}; it expires by itself");
            }
        }
    }

    /// Returns the namespace and name of the Lease.
    fn lease(&self) -> String {
        format!("{}/{}", self.options.namespace, self.options.name)
    }

    /// Logs why the leadership is lost.
    fn log_loss(&self, attempt: &Attempt) {
        let (lease, deadline) = (self.lease(), self.options.renew_deadline);
        match attempt {
            Attempt::Following => tracing::error!(
                "lost the leadership: another candidate holds lease {lease}; check that the candidates have different \
                 identities, and the clocks and load of their hosts"
            ),
            Attempt::Leading(_) | Attempt::Failed => tracing::error!(
                "lost the leadership: failed to renew lease {lease} within {deadline:?}; check the API server, the \
                 network and the CPU limit of this process"
            ),
        }
    }

    /// Logs a failed attempt. The client logs outages and refused credentials.
    fn log_failure(&mut self, error: &kube::Error) {
        let (lease, message) = (self.lease(), api_error_message(error));
        let line = if is_unreachable(error) || has_code(error, 401) {
            None
        } else {
            self.failure.failed(&message, Instant::now().into_std())
        };
        if let Some(line) = line {
            tracing::warn!(
                error = %message,
                repeated = line.repeated,
                "cannot use the lease {lease}; trying again: check the rights of this account on leases"
            );
        } else {
            tracing::debug!(
                error = %message,
                "cannot use the lease {lease}; trying again"
            );
        }
    }

    async fn release_lease(&self) -> Result<(), kube::Error> {
        let mut attempts = 1;
        loop {
            match self.release_once().await {
                Err(kube::Error::Api(status))
                    if status.code == 409 && attempts < RELEASE_ATTEMPTS =>
                {
                    attempts += 1;
                }
                other => return other,
            }
        }
    }

    async fn release_once(&self) -> Result<(), kube::Error> {
        let Some(mut lease) = self.api.get_opt(&self.options.name).await? else {
            return Ok(());
        };
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(self.options.identity.as_str()) {
            return Ok(());
        }
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        let now = MicroTime(self.wall.now());
        spec.renew_time = Some(now.clone());
        spec.acquire_time = Some(now);
        self.api
            .replace(&self.options.name, &PostParams::default(), &lease)
            .await?;
        Ok(())
    }

    /// Extends the leadership until one renew deadline after `since`, the time at which the renewal was sent.
    fn extend(&self, since: Instant) {
        self.leadership
            .set(Tenure::Until(since + self.options.renew_deadline));
    }

    /// Returns the time limit of one attempt. It is half of the renew deadline, to leave time for a second attempt on a
    /// new connection.
    fn attempt_timeout(&self) -> Duration {
        self.options.renew_deadline / 2
    }

    /// Tries once to acquire or renew the Lease.
    async fn attempt(&mut self, timeout: Duration) -> Attempt {
        let sent = Instant::now();
        match within(timeout, self.try_once()).await {
            Ok(leads) => {
                if let Some(end) = self.failure.ended(Instant::now().into_std()) {
                    let (lease, failures) = (self.lease(), end.failures);
                    tracing::info!(
                        failures,
                        "the lease {lease} can be used again after {}",
                        end.lasted
                    );
                }
                if leads {
                    Attempt::Leading(sent)
                } else {
                    Attempt::Following
                }
            }
            // Another candidate has changed the Lease first. The next read shows the new record.
            Err(kube::Error::Api(status)) if status.code == 409 => Attempt::Failed,
            Err(error) => {
                self.log_failure(&error);
                Attempt::Failed
            }
        }
    }

    async fn try_once(&mut self) -> Result<bool, kube::Error> {
        let now = MicroTime(self.wall.now());
        let Some(mut lease) = self.api.get_opt(&self.options.name).await? else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(self.options.name.clone()),
                    ..ObjectMeta::default()
                },
                spec: Some(self.record(now.clone(), now, 0)),
            };
            let created = self.api.create(&PostParams::default(), &lease).await?;
            self.observed = created.spec.map(|spec| (spec, Instant::now()));
            return Ok(true);
        };
        let current = lease.spec.clone().unwrap_or_default();
        let ours = current.holder_identity.as_deref() == Some(self.options.identity.as_str());
        if !ours && !self.has_expired(&current) {
            return Ok(false);
        }
        let transitions = current.lease_transitions.unwrap_or(0);
        let record = if ours {
            self.record(
                current.acquire_time.clone().unwrap_or_else(|| now.clone()),
                now,
                transitions,
            )
        } else {
            self.record(now.clone(), now, transitions.saturating_add(1))
        };
        lease.spec = Some(record);
        let written = self
            .api
            .replace(&self.options.name, &PostParams::default(), &lease)
            .await?;
        self.observed = written.spec.map(|spec| (spec, Instant::now()));
        Ok(true)
    }

    fn has_expired(&mut self, current: &LeaseSpec) -> bool {
        if current
            .holder_identity
            .as_deref()
            .unwrap_or_default()
            .is_empty()
        {
            return true;
        }
        match &self.observed {
            Some((seen, at)) if seen == current => at.elapsed() >= self.lease_duration_of(current),
            _ => {
                self.observed = Some((current.clone(), Instant::now()));
                false
            }
        }
    }

    fn lease_duration_of(&self, record: &LeaseSpec) -> Duration {
        let seconds = record.lease_duration_seconds;
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        seconds.map_or(self.options.lease_duration, Duration::from_secs)
    }

    fn record(&self, acquired: MicroTime, renewed: MicroTime, transitions: i32) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.options.identity.clone()),
            // Rounded up to whole seconds.
            lease_duration_seconds: i32::try_from(
                self.options.lease_duration.as_millis().div_ceil(1000),
            )
            .ok(),
            acquire_time: Some(acquired),
            renew_time: Some(renewed),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }
}

#[cfg(test)]
mod tests;
