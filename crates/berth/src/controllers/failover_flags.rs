//! Failover and its flags, shared by `berth controllers` and `berth up`. Names and defaults are
//! karmada-controller-manager's where it has them.

use std::num::NonZeroU32;
use std::time::Duration;

use berth_api::policy::PurgeMode;
use berth_controllers::failover::{self, FailoverError, FailoverOptions, TaintEviction};
use berth_controllers::taint_policy::{self, TaintPolicyError};
use berth_scheduler::gates::ControllerGates;
use berth_scheduler::go_duration::go_duration;
use clap::{Args, ValueEnum};
use kube::Client;
use tokio_util::sync::CancellationToken;

/// Flags of failover.
#[derive(Args, Clone, Debug)]
pub struct FailoverArgs {
    /// Let NoExecute taints of clusters evict what does not tolerate them; needs the gate Failover
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_no_execute_taint_eviction: Option<bool>,

    /// What becomes of the old copies, where the policy does not say
    #[arg(
        long,
        value_name = "MODE",
        default_value = "Gracefully",
        ignore_case = true
    )]
    pub no_execute_taint_eviction_purge_mode: Purge,

    /// Evictions by taints each second; 0 for one in half an hour
    #[arg(long, value_name = "RATE", default_value_t = 0.5)]
    pub resource_eviction_rate: f32,

    /// How long old copies wait for the new ones, where the policy does not say
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = go_duration)]
    pub graceful_eviction_timeout: Duration,

    /// At most so many bindings leave clusters within a minute; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub move_budget: u32,
}

/// What becomes of old copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Purge {
    /// They go when the new ones are healthy, or the grace period is over
    Gracefully,
    /// They go before the new ones come
    Directly,
}

/// Where failover runs, which says what is on without a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Beside real members: as in Karmada nothing is evicted unasked.
    Real,
    /// Beside simulated ones, whose failures are there to be looked at.
    Simulated,
}

impl Default for FailoverArgs {
    /// What no flag at all says.
    fn default() -> Self {
        Self {
            enable_no_execute_taint_eviction: None,
            no_execute_taint_eviction_purge_mode: Purge::Gracefully,
            resource_eviction_rate: 0.5,
            graceful_eviction_timeout: Duration::from_mins(10),
            move_budget: 0,
        }
    }
}

impl FailoverArgs {
    /// What the flags say.
    pub fn parts(&self, gates: ControllerGates, setting: Setting) -> Parts {
        let simulated = setting == Setting::Simulated;
        let gate = gates.failover.unwrap_or(simulated);
        let evicts = gate && self.enable_no_execute_taint_eviction.unwrap_or(simulated);
        let options = FailoverOptions {
            taint_eviction: evicts.then_some(TaintEviction {
                purge_mode: match self.no_execute_taint_eviction_purge_mode {
                    Purge::Gracefully => PurgeMode::Gracefully,
                    Purge::Directly => PurgeMode::Directly,
                },
                rate: self.resource_eviction_rate,
            }),
            application_failover: true,
            graceful_eviction: gates.graceful_eviction,
            graceful_eviction_timeout: self.graceful_eviction_timeout,
            state_preservation: gates.stateful_failover_injection,
            move_budget: NonZeroU32::new(self.move_budget),
        };
        Parts {
            options,
            taint_policies: gate,
        }
    }
}

/// What of failover runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts {
    options: FailoverOptions,
    /// Whether ClusterTaintPolicies have an effect.
    taint_policies: bool,
}

/// Why failover ended.
#[derive(Debug, thiserror::Error)]
pub enum FailoverFailure {
    /// Evictions have ended.
    #[error(transparent)]
    Failover(#[from] FailoverError),
    /// ClusterTaintPolicies have no effect any more.
    #[error(transparent)]
    TaintPolicy(#[from] TaintPolicyError),
}

impl Parts {
    /// Runs until the token is cancelled.
    ///
    /// # Errors
    /// When a part fails.
    pub async fn run(
        self,
        client: Client,
        cancel: CancellationToken,
    ) -> Result<(), FailoverFailure> {
        let tainting = async {
            if self.taint_policies {
                taint_policy::run(client.clone(), cancel.clone()).await?;
            }
            Ok::<_, FailoverFailure>(())
        };
        let evicting =
            async { Ok(failover::run(client.clone(), self.options, cancel.clone()).await?) };
        tokio::try_join!(tainting, evicting)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use berth_scheduler::gates::{self, FeatureGates};
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[arg(long, default_value = "", value_parser = gates::parse)]
        feature_gates: FeatureGates,
        #[command(flatten)]
        failover: FailoverArgs,
    }

    fn options(setting: Setting, flags: &[&str]) -> FailoverOptions {
        let flags = std::iter::once(&"test").chain(flags);
        let command = Command::try_parse_from(flags).unwrap();
        let gates = command.feature_gates.controllers;
        command.failover.parts(gates, setting).options
    }

    #[test]
    fn nothing_is_evicted_unasked_from_real_members() {
        let (gate, flag) = (
            "--feature-gates=Failover=true",
            "--enable-no-execute-taint-eviction",
        );
        for (setting, flags, evicts) in [
            (Setting::Real, vec![], false),
            (Setting::Real, vec![gate], false),
            (Setting::Real, vec![flag], false),
            (Setting::Real, vec![gate, flag], true),
            (Setting::Simulated, vec![], true),
            (
                Setting::Simulated,
                vec!["--feature-gates=WorkloadAffinity=true"],
                true,
            ),
            (
                Setting::Simulated,
                vec!["--enable-no-execute-taint-eviction=false"],
                false,
            ),
            (
                Setting::Simulated,
                vec!["--feature-gates=Failover=false"],
                false,
            ),
        ] {
            let found = options(setting, &flags).taint_eviction.is_some();
            assert_eq!(found, evicts, "{setting:?} {flags:?}");
        }
    }

    #[test]
    fn defaults_are_karmadas() {
        assert_eq!(options(Setting::Real, &[]), FailoverOptions::default());
        assert_eq!(
            options(Setting::Simulated, &[]).taint_eviction,
            Some(TaintEviction::default())
        );
    }

    #[test]
    fn every_flag_has_its_effect() {
        let found = options(
            Setting::Real,
            &[
                "--feature-gates=Failover=true,GracefulEviction=false,StatefulFailoverInjection=true",
                "--enable-no-execute-taint-eviction=true",
                "--no-execute-taint-eviction-purge-mode=Directly",
                "--resource-eviction-rate=2",
                "--graceful-eviction-timeout=1m30s",
                "--move-budget=7",
            ],
        );
        let expected = FailoverOptions {
            taint_eviction: Some(TaintEviction {
                purge_mode: PurgeMode::Directly,
                rate: 2.0,
            }),
            application_failover: true,
            graceful_eviction: false,
            graceful_eviction_timeout: Duration::from_secs(90),
            state_preservation: true,
            move_budget: NonZeroU32::new(7),
        };
        assert_eq!(found, expected);
    }
}
