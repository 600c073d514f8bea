//! Flags of the failover controllers. Those of karmada-controller-manager have its names and, for real members, its
//! defaults. The flags of the brake have the names of the node lifecycle controller's, and `--unschedulable-threshold` that
//! of karmada-descheduler's.

use std::num::NonZeroU32;
use std::time::Duration;

use berth_api::feature_gates::ControllerGates;
use berth_api::policy::PurgeMode;
use berth_apimachinery::go_bool::go_bool;
use berth_component_base::go_duration::go_duration;
use berth_controllers::failover::{
    BrakeOptions, FailoverOptions, RebalanceMode, RebalanceOptions, TaintEviction,
};
use clap::{Args, ValueEnum};

/// Flags of the failover controllers.
#[derive(Args, Clone, Debug)]
pub struct FailoverArgs {
    /// Evict bindings that do not tolerate the NoExecute taints of their clusters; needs the gate Failover
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = go_bool)]
    pub enable_no_execute_taint_eviction: Option<bool>,

    /// Evict bindings because of NoExecute taints; `false` overrides --enable-no-execute-taint-eviction
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set,
        value_parser = go_bool, hide = true)]
    pub enable_taint_manager: bool,

    /// Default purge mode of old copies
    #[arg(
        long,
        value_name = "MODE",
        default_value = "Gracefully",
        ignore_case = true
    )]
    pub no_execute_taint_eviction_purge_mode: Purge,

    /// Bindings evicted per second because of taints; 0 means one in 30 minutes
    #[arg(long, value_name = "RATE", default_value_t = 0.5)]
    pub resource_eviction_rate: f32,

    /// Default time after which old copies are deleted even if the new copies are not healthy
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = go_duration)]
    pub graceful_eviction_timeout: Duration,

    /// Maximum bindings evicted or rebalanced per minute; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub move_budget: u32,

    /// Share of the clusters that must become not ready within a minute until evictions from them slow down or stop
    #[arg(long, value_name = "SHARE", default_value_t = 0.55, value_parser = share)]
    pub unhealthy_cluster_threshold: f32,

    /// Bindings evicted per second while so many clusters are not ready; 0 stops these evictions
    #[arg(long, value_name = "RATE", default_value_t = 0.0)]
    pub secondary_resource_eviction_rate: f32,

    /// Move bindings back to clusters that are ready again, and replicas that no node can run to other clusters
    #[arg(long, value_name = "MODE", num_args = 0..=1, require_equals = true, default_value = "off",
        default_missing_value = "on")]
    pub rebalance: Rebalance,

    /// With --rebalance, time after which replicas that no node can run move
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = go_duration)]
    pub unschedulable_threshold: Duration,

    /// With --rebalance, time for which a cluster must be ready before bindings return to it
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = go_duration)]
    pub failback_after: Duration,
}

/// Parses a share of the clusters, which may be above 1 to turn the brake off.
fn share(text: &str) -> Result<f32, String> {
    let share: Option<f32> = text.parse().ok().filter(|share| *share > 0.0);
    share.ok_or_else(|| "must be a number above 0, as in 0.55".to_owned())
}

/// The mode of the rebalancing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rebalance {
    /// Move nothing
    Off,
    /// Report what would move, in events, metrics and logs
    DryRun,
    /// Move bindings
    On,
}

/// A purge mode of old copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Purge {
    /// Delete old copies when the new ones are healthy or the grace period is over
    Gracefully,
    /// Delete old copies before new ones are created
    Directly,
}

/// The kind of members, which determines the defaults of some flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberKind {
    /// Real members. As in Karmada, taints evict no bindings by default.
    Real,
    /// Simulated members. By default, NoExecute taints evict bindings.
    Simulated,
}

impl MemberKind {
    /// Reports whether the feature gate `Failover` is on.
    pub(super) fn enables_failover(self, gates: ControllerGates) -> bool {
        gates.failover.unwrap_or(self == Self::Simulated)
    }
}

impl Default for FailoverArgs {
    /// Returns the values of a command line without these flags.
    fn default() -> Self {
        Self {
            enable_no_execute_taint_eviction: None,
            enable_taint_manager: true,
            no_execute_taint_eviction_purge_mode: Purge::Gracefully,
            resource_eviction_rate: 0.5,
            graceful_eviction_timeout: Duration::from_mins(10),
            move_budget: 0,
            unhealthy_cluster_threshold: 0.55,
            secondary_resource_eviction_rate: 0.0,
            rebalance: Rebalance::Off,
            unschedulable_threshold: Duration::from_mins(5),
            failback_after: Duration::from_mins(10),
        }
    }
}

impl FailoverArgs {
    /// Returns the options of the failover controllers.
    pub(super) fn options(
        &self,
        gates: ControllerGates,
        member_kind: MemberKind,
    ) -> FailoverOptions {
        let by_default = member_kind == MemberKind::Simulated;
        let evicts = member_kind.enables_failover(gates)
            && self.enable_taint_manager
            && self.enable_no_execute_taint_eviction.unwrap_or(by_default);
        FailoverOptions {
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
            brake: BrakeOptions {
                threshold: self.unhealthy_cluster_threshold,
                rate: self.secondary_resource_eviction_rate,
                ..BrakeOptions::default()
            },
            rebalance: self.rebalance(),
        }
    }

    fn rebalance(&self) -> Option<RebalanceOptions> {
        let mode = match self.rebalance {
            Rebalance::Off => return None,
            Rebalance::DryRun => RebalanceMode::DryRun,
            Rebalance::On => RebalanceMode::On,
        };
        Some(RebalanceOptions {
            mode,
            unschedulable_after: self.unschedulable_threshold,
            failback_after: self.failback_after,
        })
    }
}

#[cfg(test)]
mod tests {
    use berth_api::feature_gates::{self, FeatureGates};
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[arg(long, default_value = "", value_parser = feature_gates::parse)]
        feature_gates: FeatureGates,
        #[command(flatten)]
        failover: FailoverArgs,
    }

    fn options(member_kind: MemberKind, flags: &[&str]) -> FailoverOptions {
        let flags = std::iter::once(&"test").chain(flags);
        let command = Command::try_parse_from(flags).unwrap();
        let gates = command.feature_gates.controllers;
        command.failover.options(gates, member_kind)
    }

    #[test]
    fn by_default_taints_evict_no_bindings_of_real_members() {
        let (gate, flag) = (
            "--feature-gates=Failover=true",
            "--enable-no-execute-taint-eviction",
        );
        for (member_kind, flags, evicts) in [
            (MemberKind::Real, vec![], false),
            (MemberKind::Real, vec![gate], false),
            (MemberKind::Real, vec![flag], false),
            (MemberKind::Real, vec![gate, flag], true),
            (
                MemberKind::Real,
                vec![gate, flag, "--enable-taint-manager=false"],
                false,
            ),
            (MemberKind::Simulated, vec![], true),
            (
                MemberKind::Simulated,
                vec!["--feature-gates=WorkloadAffinity=true"],
                true,
            ),
            (
                MemberKind::Simulated,
                vec!["--enable-no-execute-taint-eviction=false"],
                false,
            ),
            (
                MemberKind::Simulated,
                vec!["--feature-gates=Failover=false"],
                false,
            ),
        ] {
            let found = options(member_kind, &flags).taint_eviction.is_some();
            assert_eq!(found, evicts, "{member_kind:?} {flags:?}");
        }
    }

    #[test]
    fn real_members_have_the_defaults_of_karmada() {
        assert_eq!(options(MemberKind::Real, &[]), FailoverOptions::default());
        assert_eq!(
            options(MemberKind::Simulated, &[]).taint_eviction,
            Some(TaintEviction::default())
        );
    }

    #[test]
    fn a_threshold_is_above_0() {
        for (text, expected) in [
            ("0.55", true),
            ("2", true),
            ("0", false),
            ("-1", false),
            ("NaN", false),
            ("all", false),
        ] {
            assert_eq!(share(text).is_ok(), expected, "{text}");
        }
    }

    #[test]
    fn rebalancing_is_off_until_it_is_asked_for() {
        for (flags, expected) in [
            (&[][..], None),
            (&["--rebalance"], Some(RebalanceMode::On)),
            (&["--rebalance=on"], Some(RebalanceMode::On)),
            (&["--rebalance=dry-run"], Some(RebalanceMode::DryRun)),
            (&["--rebalance=off"], None),
        ] {
            let found = options(MemberKind::Real, flags).rebalance;
            assert_eq!(found.map(|options| options.mode), expected, "{flags:?}");
        }
    }

    #[test]
    fn each_failover_flag_sets_its_option() {
        let found = options(
            MemberKind::Real,
            &[
                "--feature-gates=Failover=true,GracefulEviction=false,StatefulFailoverInjection=true",
                "--enable-no-execute-taint-eviction=true",
                "--no-execute-taint-eviction-purge-mode=Directly",
                "--resource-eviction-rate=2",
                "--graceful-eviction-timeout=1m30s",
                "--move-budget=7",
                "--unhealthy-cluster-threshold=0.4",
                "--secondary-resource-eviction-rate=0.1",
                "--rebalance=dry-run",
                "--unschedulable-threshold=2m",
                "--failback-after=30m",
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
            brake: BrakeOptions {
                threshold: 0.4,
                rate: 0.1,
                ..BrakeOptions::default()
            },
            rebalance: Some(RebalanceOptions {
                mode: RebalanceMode::DryRun,
                unschedulable_after: Duration::from_mins(2),
                failback_after: Duration::from_mins(30),
            }),
        };
        assert_eq!(found, expected);
    }
}
