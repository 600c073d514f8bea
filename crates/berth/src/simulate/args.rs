//! The flags of `berth simulate`.

use std::path::PathBuf;
use std::str::FromStr;

use berth_core::{EngineOptions, PluginSet};
use berth_scheduler::estimator::EstimatorArgs;
use berth_scheduler::gates::{self, FeatureGates};
use clap::{Args, ValueEnum};
use k8s_openapi::api::core::v1::Taint;

use super::source::Input;

/// Flags of `berth simulate`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct SimulateArgs {
    /// Manifests: a file, a folder (its *.yaml, *.yml and *.json files), or - for standard input
    #[arg(short, long, value_name = "FILE|DIR|-", num_args = 1.., required_unless_present = "against")]
    pub filename: Vec<Input>,

    /// How to print the answer
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: Format,

    /// Namespace of manifests that name none [default: default, or that of the context]
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,

    /// Take manifests that a control plane would refuse; its defaults are filled in all the same
    #[arg(long)]
    pub no_validate: bool,

    /// Take Clusters and bindings from the control plane of this kubeconfig context, which is only read,
    /// and print what the manifests would move there
    #[arg(long, value_name = "KUBECONFIG-CONTEXT")]
    pub against: Option<String>,

    /// Path to the kubeconfig file of --against [default: $KUBECONFIG, or that of `berth up`, or ~/.kube/config]
    #[arg(long, value_name = "FILE", requires = "against")]
    pub kubeconfig: Option<PathBuf>,

    /// What would move if this cluster were lost; repeatable
    #[arg(long, value_name = "CLUSTER")]
    pub without: Vec<String>,

    /// What would move if this cluster had this taint; repeatable
    #[arg(long, value_name = "CLUSTER=KEY[=VALUE]:EFFECT")]
    pub taint: Vec<TaintArg>,

    /// Exit with code 1 where a binding finds no place or a policy selects nothing
    #[arg(long)]
    pub fail_on_unscheduled: bool,

    /// Plugins to enable, as for berth scheduler
    #[arg(
        long,
        value_name = "LIST",
        default_value = "*",
        value_delimiter = ',',
        allow_hyphen_values = true,
        value_parser = plugin
    )]
    pub plugins: Vec<String>,

    /// Feature gates, as for berth scheduler and berth controllers
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true, value_parser = gates::parse)]
    pub feature_gates: FeatureGates,

    /// Also send workloads with no replicas assigned to the selected clusters, with 0 replicas
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", action = clap::ArgAction::Set)]
    pub enable_empty_workload_propagation: bool,

    /// The estimators that are asked.
    #[command(
        flatten,
        next_help_heading = "Estimators, as for berth scheduler (with --against)"
    )]
    pub estimators: EstimatorArgs,
}

const EXAMPLES: &str = "\
Examples:
  berth simulate -f examples/fleet.yaml -f examples/nginx.yaml
                                where would this go? Needs no server
  berth simulate -f fleet.yaml -f apps/ -o wide
                                and why, cluster by cluster
  kustomize build . | berth simulate -f fleet.yaml -f - -o json
                                for scripts
  berth simulate -f fleet.yaml -f apps/ --without member1
                                what would move if member1 were lost?
  berth simulate --against prod --without member1 --without member2
                                the same about what runs on the control plane of this context
  berth simulate --against prod -f new-policy.yaml
                                what would move if this were applied there?
  berth simulate --against prod
                                what would move if Berth took over there?
  berth simulate --against prod -f new-app.yaml --enable-scheduler-estimator -o wide
                                the same, and what each member's estimator says about it

Nothing is written anywhere. A binding that fits nowhere is an answer (exit code 0); manifests that cannot
be read, or would be refused, are an error (1), as is a command line that makes no sense (2).";

impl SimulateArgs {
    /// How the engine decides.
    pub(crate) fn engine_options(&self) -> EngineOptions {
        EngineOptions {
            plugins: PluginSet::parse(self.plugins.iter().map(String::as_str), plugins()),
            gates: self.feature_gates.engine,
            empty_workload_propagation: self.enable_empty_workload_propagation,
        }
    }

    /// Whether a change of the fleet is asked about.
    pub(crate) fn changes_fleet(&self) -> bool {
        !self.without.is_empty() || !self.taint.is_empty()
    }
}

/// The plugins that `--plugins` can name. Those behind a gate run only when it is on.
fn plugins<'a>() -> impl Iterator<Item = &'a str> {
    let (free, gated): ([&'a str; 6], [&'a str; 2]) = (berth_core::IN_TREE, berth_core::GATED);
    free.into_iter().chain(gated)
}

/// Reads an entry of `--plugins`.
fn plugin(entry: &str) -> Result<String, String> {
    let name = entry.trim_start_matches('-');
    if entry.is_empty() || entry == "*" || plugins().any(|known| known == name) {
        return Ok(entry.to_owned());
    }
    let known: Vec<&str> = plugins().collect();
    Err(format!(
        "no plugin is named {name:?}: there are {}",
        known.join(", ")
    ))
}

/// How the answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One row for each binding
    Table,
    /// Cluster by cluster
    Wide,
    /// For scripts
    Json,
    /// The same as YAML
    Yaml,
}

/// A taint on a cluster: `CLUSTER=KEY[=VALUE]:EFFECT`.
#[derive(Clone, Debug, PartialEq)]
pub struct TaintArg {
    /// The cluster.
    pub cluster: String,
    /// What it gets.
    pub taint: Taint,
}

impl FromStr for TaintArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const SHAPE: &str = "must be CLUSTER=KEY=VALUE:EFFECT or CLUSTER=KEY:EFFECT";
        let (cluster, taint) = text.split_once('=').ok_or(SHAPE)?;
        let (what, effect) = taint.rsplit_once(':').ok_or(SHAPE)?;
        let (key, value) = what
            .split_once('=')
            .map_or((what, None), |(key, value)| (key, Some(value)));
        if cluster.is_empty() || key.is_empty() {
            return Err(SHAPE.to_owned());
        }
        if !["NoSchedule", "NoExecute"].contains(&effect) {
            return Err(format!(
                "the effect {effect:?} must be NoSchedule or NoExecute"
            ));
        }
        Ok(Self {
            cluster: cluster.to_owned(),
            taint: Taint {
                key: key.to_owned(),
                value: value.map(str::to_owned),
                effect: effect.to_owned(),
                time_added: None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_that_there_are_not_are_refused() {
        for entry in [
            "*",
            "",
            "-ClusterAffinity",
            "TaintToleration",
            "-WorkloadAffinity",
        ] {
            assert_eq!(plugin(entry), Ok(entry.to_owned()));
        }
        for entry in ["Foo", "-Foo", "clusteraffinity", "-"] {
            let refused = plugin(entry).unwrap_err();
            assert!(refused.contains("there are APIEnablement, "), "{refused}");
        }
    }

    #[test]
    fn taints_are_written_as_for_kubectl() {
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
