//! The flags of `berth simulate`, and the options that they describe.

use std::path::PathBuf;
use std::str::FromStr;

use berth_api::quantity::Quantity;
use berth_plan::simulate::{Input, LiveOptions, SimulateOptions};
use berth_plan::what_if::{FleetChange, parse_taint};
use berth_scheduler::estimator::EstimatorArgs;
use clap::{Args, ValueEnum};
use k8s_openapi::api::core::v1::Taint;

use super::error::SimulateCommandError;
use crate::control_plane::target;
use crate::engine_flags::EngineFlags;
use crate::member_name;
use crate::scheduler_endpoint::SchedulerEndpointArgs;

/// Flags of `berth simulate`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("scheduler_url", |flag| flag.help(
    "URL of the scheduler's --metrics-bind-address, such as http://127.0.0.1:8080 [default: decide with the flags]"
)))]
pub struct SimulateArgs {
    /// Manifests: a file, a folder (its *.yaml, *.yml and *.json files), or - for standard input
    #[arg(short, long, value_name = "FILE|DIR|-", num_args = 1.., required_unless_present = "against")]
    pub filename: Vec<Input>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: Format,

    /// Namespace for manifests that name no namespace [default: default, or that of the context]
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,

    /// Accept manifests that a control plane would refuse; defaults are still filled in
    #[arg(long)]
    pub no_validate: bool,

    /// Read Clusters and bindings from the control plane of this kubeconfig context, and print what the manifests would
    /// move there; nothing is written
    #[arg(long, value_name = "KUBECONFIG-CONTEXT", visible_alias = "context")]
    pub against: Option<String>,

    /// Path to the kubeconfig file of --against [default: $KUBECONFIG, or that of `berth up`, or ~/.kube/config]
    #[arg(long, value_name = "FILE", requires = "against")]
    pub kubeconfig: Option<PathBuf>,

    /// Show what would move if this cluster were lost; repeatable
    #[arg(long, value_name = "CLUSTER", value_parser = member_name::parse)]
    pub without: Vec<String>,

    /// Show what would move if this cluster were drained, as by `berth drain`; repeatable
    #[arg(long, value_name = "CLUSTER", value_parser = member_name::parse)]
    pub drain: Vec<String>,

    /// Show what would move if this cluster had this taint; repeatable
    #[arg(long, value_name = "CLUSTER=KEY[=VALUE]:EFFECT")]
    pub taint: Vec<TaintArg>,

    /// Show what would move if this cluster had this amount of a resource; repeatable
    #[arg(long, value_name = "CLUSTER=RESOURCE=AMOUNT")]
    pub capacity: Vec<CapacityArg>,

    /// Exit with code 1 if a binding cannot be placed, or a policy or selector selects nothing
    #[arg(long)]
    pub fail_on_unscheduled: bool,

    /// Configuration file of the scheduler: profiles, weights, the plugin Expressions, gangs and preemption
    #[arg(long, value_name = "FILE", conflicts_with = "scheduler_url")]
    pub config: Option<PathBuf>,

    /// Flags that select a running scheduler, whose configuration is used.
    #[command(flatten)]
    pub scheduler: SchedulerEndpointArgs,

    /// Flags that affect scheduling decisions.
    #[command(flatten)]
    pub engine: EngineFlags,

    /// Flags of the estimators.
    #[command(
        flatten,
        next_help_heading = "Estimators, as for berth scheduler (with --against)"
    )]
    pub estimators: EstimatorArgs,
}

const EXAMPLES: &str = "\
Examples:
  berth simulate -f examples/fleet.yaml -f examples/nginx.yaml
                                shows where these manifests would be placed; needs no server
  berth simulate -f fleet.yaml -f apps/ -o wide
                                also shows the reason for each cluster
  kustomize build . | berth simulate -f fleet.yaml -f - -o json
                                prints JSON for scripts
  berth simulate -f fleet.yaml -f apps/ --without member1
                                shows what would move if member1 were lost
  berth simulate --against prod --without member1 --without member2
                                shows what would move in a live control plane if two members were lost
  berth simulate --against prod --drain member1
                                shows what would move before maintenance of member1
  berth simulate --against prod --taint member1=broken:NoExecute --config scheduler.yaml
                                shows what a taint would evict, with the profiles in a configuration file
  berth simulate --against prod --capacity member1=cpu=200 --scheduler-url http://127.0.0.1:8080
                                shows what would move to a larger member1, with the running scheduler's configuration
  berth simulate --against prod -f new-policy.yaml
                                shows what would move if the policy were applied to the control plane
  berth simulate --against prod
                                shows what would move if Berth became the scheduler of the control plane
  berth simulate --against prod -f new-app.yaml --enable-scheduler-estimator -o wide
                                shows where the app would be placed, with the answers of the members' estimators

Nothing is written. A binding without a suitable cluster is a result (exit code 0). Manifests that cannot be read, or
that a control plane would refuse, are an error (1). An invalid command line is an error, too (2).";

impl SimulateArgs {
    /// Returns the options of the simulation.
    ///
    /// # Errors
    /// Fails if the flags of the estimators are invalid, or need `--against`.
    pub(super) fn options(&self) -> Result<SimulateOptions, SimulateCommandError> {
        let estimators = self.estimators.clone().options()?;
        if estimators.is_some() && self.against.is_none() {
            return Err(SimulateCommandError::EstimatorsWithoutControlPlane);
        }
        Ok(SimulateOptions {
            namespace: self.namespace.clone(),
            validates: !self.no_validate,
            changes: self.changes(),
            explains: self.output != Format::Table,
            gates: self.engine.feature_gates,
            live: self.against.clone().map(|context| LiveOptions {
                target: target(self.kubeconfig.clone(), Some(context)),
                estimators,
            }),
        })
    }

    /// Returns the changes of the fleet, each with its flag.
    fn changes(&self) -> Vec<(&'static str, FleetChange)> {
        let lost = self.without.iter().map(|cluster| {
            let cluster = cluster.clone();
            ("--without", FleetChange::Lose { cluster })
        });
        let drained = self.drain.iter().map(|cluster| {
            let cluster = cluster.clone();
            ("--drain", FleetChange::Drain { cluster })
        });
        let tainted = self.taint.iter().map(|TaintArg { cluster, taint }| {
            let (cluster, taint) = (cluster.clone(), taint.clone());
            ("--taint", FleetChange::Taint { cluster, taint })
        });
        let resized = self.capacity.iter().map(|change| {
            let CapacityArg {
                cluster,
                resource,
                amount,
            } = change.clone();
            let amount = amount.as_str().into();
            let change = FleetChange::Capacity {
                cluster,
                resource,
                amount,
            };
            ("--capacity", change)
        });
        lost.chain(drained).chain(tainted).chain(resized).collect()
    }
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One row per binding
    Table,
    /// One row per binding and cluster
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// The value of `--taint`: `CLUSTER=KEY[=VALUE]:EFFECT`.
#[derive(Clone, Debug, PartialEq)]
pub struct TaintArg {
    /// Name of the cluster.
    pub cluster: String,
    /// Taint to add.
    pub taint: Taint,
}

/// The value of `--capacity`: `CLUSTER=RESOURCE=AMOUNT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityArg {
    /// Name of the cluster.
    pub cluster: String,
    /// Name of the resource.
    pub resource: String,
    /// New allocatable amount, as a quantity.
    pub amount: String,
}

impl FromStr for CapacityArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const SYNTAX: &str = "must be CLUSTER=RESOURCE=AMOUNT, as in member1=cpu=200";
        let (cluster, rest) = text.split_once('=').ok_or(SYNTAX)?;
        let (resource, amount) = rest.split_once('=').ok_or(SYNTAX)?;
        if cluster.is_empty() || resource.is_empty() {
            return Err(SYNTAX.to_owned());
        }
        Quantity::parse(amount).map_err(|error| error.to_string())?;
        Ok(Self {
            cluster: member_name::parse(cluster)?,
            resource: resource.to_owned(),
            amount: amount.to_owned(),
        })
    }
}

impl FromStr for TaintArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const SYNTAX: &str = "must be CLUSTER=KEY=VALUE:EFFECT or CLUSTER=KEY:EFFECT";
        let (cluster, taint) = text.split_once('=').ok_or(SYNTAX)?;
        if cluster.is_empty() {
            return Err(SYNTAX.to_owned());
        }
        let taint = parse_taint(taint, SYNTAX)?;
        Ok(Self {
            cluster: member_name::parse(cluster)?,
            taint,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capacity_has_a_cluster_a_resource_and_a_quantity() {
        let parsed: CapacityArg = "m1=memory=64Gi".parse().unwrap();
        let expected = ("m1", "memory", "64Gi");
        let found = (&*parsed.cluster, &*parsed.resource, &*parsed.amount);
        assert_eq!(found, expected);
        for refused in ["m1", "m1=cpu", "=cpu=1", "m1==1", "m1=cpu=much"] {
            assert!(refused.parse::<CapacityArg>().is_err(), "{refused}");
        }
    }

    #[test]
    fn taints_are_parsed_or_refused() {
        for (text, expected) in [
            (
                "m1=dedicated=db:NoSchedule",
                Some(("m1", "dedicated", Some("db"), "NoSchedule")),
            ),
            ("m1=gone:NoExecute", Some(("m1", "gone", None, "NoExecute"))),
            (
                "m1=example.com/a=:NoSchedule",
                Some(("m1", "example.com/a", Some(""), "NoSchedule")),
            ),
            ("m1", None),
            ("m1=key", None),
            ("=key:NoSchedule", None),
            ("m1=:NoSchedule", None),
            ("m1=key:PreferNoSchedule", None),
        ] {
            let parsed = text.parse::<TaintArg>().ok();
            let found = parsed.as_ref().map(|arg| {
                let taint = &arg.taint;
                (
                    arg.cluster.as_str(),
                    taint.key.as_str(),
                    taint.value.as_deref(),
                    taint.effect.as_str(),
                )
            });
            assert_eq!(found, expected, "{text}");
        }
    }
}
