//! Leader election on a Lease, by the protocol of client-go, so that both can stand for the same office.
//!
//! Other candidates' clocks are not trusted: a record counts as expired when it has not changed for its
//! lease duration by *our* clock. A leader that cannot renew within the renew deadline, which is shorter
//! than the lease duration, stops being leader before anybody else may begin.

mod changes;
pub mod flags;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_apimachinery::api_error::is_unreachable;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::changes::Changes;
use crate::wall_clock::WallClock;
use crate::writer::in_time;

/// How often a standby that cannot watch the lease reads it in each retry period.
const LOOKS_PER_TRY: u32 = 4;
/// How often giving the office back is tried: a renewal that was under way may have been stored meanwhile.
const RELEASE_ATTEMPTS: usize = 3;

/// What leader election needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseOptions {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// Who we are: unique among all candidates.
    pub identity: String,
    /// How long a leader that is not heard of keeps its office.
    pub lease_duration: Duration,
    /// How long a leader tries to renew before it gives up; shorter than the lease duration.
    pub renew_deadline: Duration,
    /// How often candidates try.
    pub retry_period: Duration,
}

/// Durations of leader election that make no sense together.
#[derive(Debug, thiserror::Error)]
pub enum LeaseOptionsError {
    /// The leader would outlive its lease.
    #[error(
        "--leader-elect-lease-duration ({lease:?}) must be longer than --leader-elect-renew-deadline ({renew:?})"
    )]
    LeaseTooShort {
        /// The lease duration.
        lease: Duration,
        /// The renew deadline.
        renew: Duration,
    },
    /// The leader would have no second try.
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
    /// Whether a leader with these durations ends before another one may begin, and has a second try.
    ///
    /// # Errors
    /// When it does not.
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

    /// An identity as client-go makes it: host name and a random id.
    pub fn new_identity() -> String {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = host.trim();
        let host = if host.is_empty() { "localhost" } else { host };
        format!("{host}_{}", uuid::Uuid::new_v4())
    }
}

/// Whether we lead, as seen by everybody who writes.
#[derive(Clone, Debug)]
pub struct Leadership(Arc<Mutex<Tenure>>);

#[derive(Clone, Copy, Debug)]
enum Tenure {
    /// No election is held.
    Unlimited,
    /// We lead until then, unless we renew.
    Until(Instant),
    /// Somebody else leads, or nobody.
    None,
}

impl Leadership {
    /// The leadership of a process that holds no election.
    pub fn unlimited() -> Self {
        Self(Arc::new(Mutex::new(Tenure::Unlimited)))
    }

    fn none() -> Self {
        Self(Arc::new(Mutex::new(Tenure::None)))
    }

    /// Whether a write may be sent now.
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

/// A candidate for the office.
#[derive(Debug)]
pub struct Candidate {
    api: Api<Lease>,
    options: LeaseOptions,
    leadership: Leadership,
    observed: Option<(LeaseSpec, Instant)>,
    wall: WallClock,
}

enum Attempt {
    Leading(Instant),
    Following,
    Failed,
}

impl Candidate {
    /// A candidate, and the handle that tells whether it leads.
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
            },
            leadership,
        )
    }

    /// The same candidate, whose records bear the time of this clock.
    #[must_use]
    pub fn with_wall_clock(mut self, clock: WallClock) -> Self {
        self.wall = clock;
        self
    }

    /// Returns when we lead, or `false` when the token was cancelled first.
    ///
    /// The lease is read in every retry period, as client-go does, and watched besides: a standby takes over when the
    /// leader releases the lease, and not at its next look.
    pub async fn acquire(&mut self, cancel: &CancellationToken) -> bool {
        let mut changes = Changes::of(self.api.clone(), &self.options.name);
        loop {
            let attempt = tokio::select! {
                () = cancel.cancelled() => return false,
                attempt = self.attempt(self.one_try()) => attempt,
            };
            let pause = match attempt {
                Attempt::Leading(since) => {
                    self.extend(since);
                    tracing::info!(
                        lease = self.options.name,
                        identity = self.options.identity,
                        "became leader"
                    );
                    return true;
                }
                // A look costs one read; the sooner it is seen that a leader has gone, the better.
                Attempt::Following if !changes.are_watched() => {
                    self.options.retry_period / LOOKS_PER_TRY
                }
                Attempt::Following | Attempt::Failed => self.options.retry_period,
            };
            tokio::select! {
                () = cancel.cancelled() => return false,
                () = tokio::time::sleep(pause) => {}
                () = self.vacant(&mut changes) => {}
            }
        }
    }

    /// Waits until the office is vacant: the lease is released or deleted, or its record expires.
    async fn vacant(&mut self, changes: &mut Changes) {
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

    /// Returns when the record that was observed last expires, where that is still to come.
    fn expires_at(&self) -> Option<Instant> {
        let (seen, at) = self.observed.as_ref()?;
        Some(*at + self.duration_of(seen)).filter(|expires| *expires > Instant::now())
    }

    /// Renews until the office is lost (`false`) or the token is cancelled (`true`), in which case the
    /// office is still held: see [`Candidate::release`].
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
                attempt = self.attempt(left.min(self.one_try())) => attempt,
            };
            match attempt {
                Attempt::Leading(since) => {
                    self.extend(since);
                    deadline = since + self.options.renew_deadline;
                }
                Attempt::Failed if Instant::now() < deadline => {}
                Attempt::Failed | Attempt::Following => {
                    self.leadership.set(Tenure::None);
                    tracing::error!(lease = self.options.name, "lost the leadership");
                    return false;
                }
            }
        }
    }

    /// Gives the office back, so that another candidate need not wait for the lease to expire.
    pub async fn release(&mut self) {
        self.leadership.set(Tenure::None);
        let released = in_time(self.one_try(), self.give_back()).await;
        match released {
            Ok(()) => tracing::info!(lease = self.options.name, "released the leadership"),
            Err(error) => {
                tracing::warn!(%error, "cannot release the leadership; it expires by itself");
            }
        }
    }

    async fn give_back(&self) -> Result<(), kube::Error> {
        let mut attempts = 1;
        loop {
            match self.give_back_once().await {
                Err(kube::Error::Api(status))
                    if status.code == 409 && attempts < RELEASE_ATTEMPTS =>
                {
                    attempts += 1;
                }
                other => return other,
            }
        }
    }

    async fn give_back_once(&self) -> Result<(), kube::Error> {
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

    /// We lead for one renew deadline from the moment when the renewal was *sent*.
    fn extend(&self, since: Instant) {
        self.leadership
            .set(Tenure::Until(since + self.options.renew_deadline));
    }

    /// How long one try may take: a second one, on a new connection, must fit into the renew deadline.
    fn one_try(&self) -> Duration {
        self.options.renew_deadline / 2
    }

    /// One attempt to take or renew the office.
    async fn attempt(&mut self, patience: Duration) -> Attempt {
        let sent = Instant::now();
        match in_time(patience, self.try_once()).await {
            Ok(true) => Attempt::Leading(sent),
            Ok(false) => Attempt::Following,
            // Another candidate was faster; the next look tells who.
            Err(kube::Error::Api(status)) if status.code == 409 => Attempt::Failed,
            Err(error) => {
                if is_unreachable(&error) {
                    tracing::debug!(%error, lease = self.options.name, "cannot reach the lease");
                } else {
                    tracing::warn!(%error, lease = self.options.name, "cannot use the lease");
                }
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
            Some((seen, at)) if seen == current => at.elapsed() >= self.duration_of(current),
            _ => {
                self.observed = Some((current.clone(), Instant::now()));
                false
            }
        }
    }

    fn duration_of(&self, record: &LeaseSpec) -> Duration {
        let seconds = record.lease_duration_seconds;
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        seconds.map_or(self.options.lease_duration, Duration::from_secs)
    }

    fn record(&self, acquired: MicroTime, renewed: MicroTime, transitions: i32) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.options.identity.clone()),
            // Whole seconds, and never fewer than we count on ourselves.
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
#[path = "lease_tests.rs"]
mod tests;
