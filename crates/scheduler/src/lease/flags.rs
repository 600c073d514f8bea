//! The flags of leader election, with the names and defaults of Karmada's programs. The name of the lease is each
//! program's own.

use std::time::Duration;

use clap::Args;

use super::{LeaseOptions, LeaseOptionsError};
use crate::go_duration::go_duration;

/// Flags of leader election.
#[derive(Args, Clone, Debug)]
pub struct ElectionFlags {
    /// Elect a leader among those of the same lease before working
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set)]
    pub leader_elect: bool,

    /// Namespace of the lease
    #[arg(long, value_name = "NAMESPACE", default_value = berth_api::well_known::NAMESPACE_SYSTEM)]
    pub leader_elect_resource_namespace: String,

    /// How long standbys wait before they take over from a leader that is not heard of
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = go_duration)]
    pub leader_elect_lease_duration: Duration,

    /// How long the leader tries to renew its lease before it gives up
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration)]
    pub leader_elect_renew_deadline: Duration,

    /// How often candidates try to take or renew the lease
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = go_duration)]
    pub leader_elect_retry_period: Duration,
}

impl ElectionFlags {
    /// The lease of this name; none where no leader is elected.
    ///
    /// # Errors
    /// When the durations make no sense together.
    pub fn lease(self, name: String) -> Result<Option<LeaseOptions>, LeaseOptionsError> {
        if !self.leader_elect {
            return Ok(None);
        }
        let lease = LeaseOptions {
            namespace: self.leader_elect_resource_namespace,
            name,
            identity: LeaseOptions::new_identity(),
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
        };
        lease.check()?;
        Ok(Some(lease))
    }
}
