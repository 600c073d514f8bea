//! Flags of leader election, with the names and defaults of Karmada's flags. The name of the Lease differs between
//! programs, so each program passes the name to [`ElectionFlags::lease`].

use std::time::Duration;

use berth_apimachinery::go_bool::go_bool;
use clap::Args;

use super::{LeaseOptions, LeaseOptionsError};

use crate::go_duration::go_duration;

/// Flags of leader election.
#[derive(Args, Clone, Debug)]
pub struct ElectionFlags {
    /// Elect a leader before working
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set,
        value_parser = go_bool)]
    pub leader_elect: bool,

    /// Namespace of the lease
    #[arg(long, value_name = "NAMESPACE", default_value = "karmada-system")]
    pub leader_elect_resource_namespace: String,

    /// Time after which standbys replace a leader that does not renew
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = go_duration)]
    pub leader_elect_lease_duration: Duration,

    /// Time after which a leader that cannot renew its lease gives up
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration)]
    pub leader_elect_renew_deadline: Duration,

    /// Interval between attempts to acquire or renew the lease
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = go_duration)]
    pub leader_elect_retry_period: Duration,
}

impl ElectionFlags {
    /// Returns the options of leader election on the Lease `name`, or `None` if leader election is off.
    ///
    /// # Errors
    /// When the durations contradict each other.
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
