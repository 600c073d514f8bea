//! A test of `docs/configuration.md`. The page is generated from the schema of the configuration file, the arguments of
//! the commands, and the feature gates.

use std::fmt::Write as _;

use berth::cli::Cli;
use berth_api::feature_gates::{self, FeatureGates};
use berth_scheduler::config::schema;
use clap::{Arg, ArgAction, Command, CommandFactory as _};
use serde_json::Value;

use crate::{assert_current, cell};

const PAGE: &str = "docs/configuration.md";

const HEAD: &str = "\
<!-- Generated from the code: `just reference` writes this page. -->

# Configuration

Look up a field of the scheduler's configuration file, a flag of a command, or a feature gate. If Karmada
has the same flag or gate, Berth uses Karmada's name and default. [Compatibility](compatibility.md#flags-without-effect) lists the
flags of Karmada that Berth accepts without effect.

- [Configuration file](#configuration-file) of the scheduler, with an example
- [Feature gates](#feature-gates)
- Flags of [`berth scheduler`](#berth-scheduler), [`berth controllers`](#berth-controllers) and [all other
  commands](#flags)
- Values of the Helm chart: [deploy/chart](../deploy/chart/README.md)

## Configuration file

`berth scheduler --config FILE` reads the file. [Plugins](plugins.md#the-configuration-file) explains profiles and
plugins. Flags take precedence over the file. The following file runs two schedulers in one process:

```yaml
apiVersion: scheduler.config.berth/v1alpha1
kind: SchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: batch
  plugins:
    score:
      disabled:
      - name: ClusterLocality
```

`berth scheduler --config FILE` checks the file before it sends a request. If a field, a plugin or an argument of a
plugin is unknown, the command prints the position and ends with exit code 2. You can thus check a file while the
control plane does not run. A running scheduler serves its configuration, with all defaults, at `/configz` to requests
from the same machine.
";

const GATES: &str = "\
Every command with the flag `--feature-gates` accepts every gate, for example `Failover=true,GracefulEviction=false`.
`AllAlpha` and `AllBeta` set all gates of their stage, except the gates that only Berth has. A gate without effect is
accepted, so that all components can share one list. If a gate is set by its name to a value that Berth does not
support, the log contains a warning.

`MinGroupsInDivision`, `NoScaleUpOnTaints`, `EstimateGrownRequests`, `DeviceClassEstimate` and `FollowMemberAPIs` correct
decisions of Karmada. They are off in `berth scheduler`, so that replacing karmada-scheduler moves nothing. They are on in
`berth up`, in `deploy/overlays/stand-alone`, and in the chart with `controlPlane.inCluster=true`.
";

/// The effects of the feature gates, by the name of the gate.
const EFFECTS: [(&str, &str); 28] = [
    (
        "PriorityBasedScheduling",
        "bindings of higher priority are scheduled first; failed bindings wait in separate queues",
    ),
    (
        "CustomizedClusterResourceModeling",
        "estimates use the resource models of clusters. The controllers always report the nodes of members by model",
    ),
    (
        "MultiplePodTemplatesScheduling",
        "[workloads with several pod templates](interpreter.md#workloads-with-several-pod-templates) go to one cluster as a set",
    ),
    (
        "WorkloadAffinity",
        "affinity and anti-affinity between workloads",
    ),
    (
        "SchedulingOvercommitProtection",
        "recently placed workloads reduce the free resources of clusters that do not report them yet",
    ),
    (
        "SpreadByAllFields",
        "Berth's own: spread constraints by zone, provider and label also apply to placements with a spread constraint by cluster or region",
    ),
    (
        "SpreadStaticWeights",
        "Berth's own: spread constraints also apply to placements with static weights",
    ),
    (
        "MinGroupsInDivision",
        "Berth's own: `minGroups` counts the groups that get replicas, and not only the selected groups",
    ),
    (
        "NoScaleUpOnTaints",
        "Berth's own: a cluster with an untolerated taint (cordoned, not ready) keeps its replicas and gets no further ones",
    ),
    (
        "EstimateGrownRequests",
        "Berth's own: after the request of a workload grew, its running replicas count with the new request, and those that no longer fit leave",
    ),
    (
        "DeviceClassEstimate",
        "Berth's own: requests for `deviceclass.resource.kubernetes.io/NAME` limit only the answers of [estimators](estimator.md#devices), because the status of clusters contains no devices",
    ),
    (
        "NodePoolEstimate",
        "Berth's own: `berth controllers` report the nodes of each cluster by pool, and estimates respect node selectors, node affinity and taints ([capacity](capacity.md#node-pools))",
    ),
    (
        "FollowMemberAPIs",
        "Berth's own: a resource leaves a cluster that no longer serves its kind, if the list of the cluster's APIs is complete",
    ),
    (
        "FairQueueing",
        "Berth's own: among bindings of equal priority, the namespaces take turns, so that thousands of bindings in one do not delay a few in another; `--namespace-weights` sets the length of their turns",
    ),
    (
        "ClusterQueues",
        "Berth's own: the scheduler limits bindings by ClusterQueues, which also take turns ([queues](queues.md))",
    ),
    (
        "RoutineEvents",
        "Berth's own: scheduler and controllers record an event for each successful step, as Karmada does: replicas read, object applied, status collected, and a copy of each event of the template on the binding",
    ),
    (
        "GracefulMigration",
        "Berth's own: old replicas of a workload that moves stay until new ones are ready, and the last healthy copy stays ([failover](failover.md#new-replicas-before-old-ones))",
    ),
    (
        "MultiClusterService",
        "[missing](compatibility.md#missing): no controller handles MultiClusterServices",
    ),
    (
        "FederatedQuotaEnforcement",
        "the scheduler writes no decision that exceeds a FederatedResourceQuota, the webhook refuses bindings that exceed one, and the controllers compute its usage from the bindings ([quotas](quotas.md))",
    ),
    (
        "ControllerPriorityQueue",
        "the queues of the controllers always have priorities",
    ),
    (
        "LoggingAlphaOptions",
        "the alpha options of Kubernetes' logging have no effect",
    ),
    (
        "LoggingBetaOptions",
        "the format of log lines is always available",
    ),
    ("ContextualLogging", "log lines always have their context"),
    ("Failover", "eviction by taints, and ClusterTaintPolicies"),
    (
        "GracefulEviction",
        "an evicted copy stays until the new one is healthy",
    ),
    ("PropagateDeps", "dependencies follow their workload"),
    (
        "PropagationPolicyPreemption",
        "`preemption: Always` in policies",
    ),
    (
        "StatefulFailoverInjection",
        "a workload that fails over keeps its state",
    ),
];

fn gates_table() -> String {
    let mut text = "| Gate | Default | Effect |\n|---|---|---|\n".to_owned();
    for name in feature_gates::names() {
        let with = |value: &str| {
            feature_gates::parse(&format!("{name}={value}")) == Ok(FeatureGates::default())
        };
        let on_in_up = feature_gates::parse_stand_alone(&format!("{name}=true"))
            == Ok(FeatureGates::stand_alone());
        let is_ineffective = |value: &str| {
            let gates = feature_gates::parse(&format!("{name}={value}"));
            gates.is_ok_and(|gates| !gates.ineffective().is_empty())
        };
        let default = match (with("true"), with("false")) {
            _ if is_ineffective("true") || is_ineffective("false") => "no effect",
            (true, false) => "on",
            (false, true) if on_in_up => "off; on in `berth up`",
            (false, true) => "off",
            (true, true) | (false, false) => "off; on in `berth up`",
        };
        let effect = EFFECTS.iter().find(|(known, _)| *known == name);
        let effect = match (effect, name) {
            (Some((_, effect)), _) => effect,
            (None, "ResourceQuotaEstimate") => {
                "replica requirements include namespace and priority class; ResourceQuotas limit the answers of `berth estimator`"
            }
            (None, _) => "",
        };
        assert!(!effect.is_empty(), "describe the gate {name}");
        writeln!(text, "| `{name}` | {default} | {effect} |").unwrap();
    }
    text
}

/// Returns the name of the type that a property refers to. The reference may be in the property, in the items of a
/// list, or in one of several alternatives.
fn reference(property: &Value) -> Option<&str> {
    let alternatives = property["anyOf"].as_array().into_iter().flatten();
    let mut places = alternatives.chain([property, &property["items"]]);
    places
        .find_map(|place| place["$ref"].as_str())
        .and_then(|path| path.strip_prefix("#/$defs/"))
}

fn type_of(property: &Value, schema: &Value) -> String {
    let list = property["type"] == "array";
    let name = if let Some(name) = reference(property) {
        let definition = &schema["$defs"][name];
        if definition["properties"].is_object() {
            format!("[{name}](#{})", name.to_lowercase())
        } else {
            "string".to_owned()
        }
    } else {
        let own = if list {
            &property["items"]["type"]
        } else {
            &property["type"]
        };
        let types = own.as_array().cloned().unwrap_or_else(|| vec![own.clone()]);
        let mut types = types.iter().filter_map(Value::as_str);
        types
            .find(|name| *name != "null")
            .unwrap_or("any")
            .to_owned()
    };
    if list {
        format!("list of {name}")
    } else {
        name
    }
}

fn type_table(definition: &Value, schema: &Value) -> String {
    let mut text = "| Field | Type | Meaning |\n|---|---|---|\n".to_owned();
    for (name, property) in definition["properties"].as_object().unwrap() {
        let inherited = reference(property).map(|name| &schema["$defs"][name]["description"]);
        let own = property["description"].as_str();
        let meaning = own
            .or_else(|| inherited.and_then(Value::as_str))
            .unwrap_or_default();
        writeln!(
            text,
            "| `{name}` | {} | {} |",
            type_of(property, schema),
            cell(meaning)
        )
        .unwrap();
    }
    text
}

fn file_reference() -> String {
    let schema = schema::document();
    let mut text = format!("\n{}", type_table(&schema, &schema));
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        if definition["properties"].is_object() {
            let description = cell(definition["description"].as_str().unwrap_or_default());
            write!(
                text,
                "\n### {name}\n\n{description}\n\n{}",
                type_table(definition, &schema)
            )
            .unwrap();
        }
    }
    text
}

fn flag_row(argument: &Arg) -> Option<String> {
    let long = argument.get_long()?;
    if argument.is_hide_set() || ["help", "version"].contains(&long) {
        return None;
    }
    let takes_value = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    let value = argument.get_value_names().into_iter().flatten().next();
    let value = value.filter(|_| takes_value).map(|name| format!(" {name}"));
    let short = argument.get_short().map(|short| format!("`-{short}`, "));
    let defaults = argument.get_default_values().iter();
    let defaults: Vec<_> = defaults
        .map(|value| value.to_string_lossy())
        .filter(|value| !value.is_empty())
        .collect();
    let default = match defaults.join(",") {
        default if default.is_empty() || !takes_value => String::new(),
        default => format!("`{default}`"),
    };
    let meaning = argument
        .get_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let name = format!(
        "{}`--{long}{}`",
        short.unwrap_or_default(),
        value.unwrap_or_default()
    );
    Some(format!(
        "| {} | {} | {} |\n",
        name,
        cell(&default),
        cell(&meaning)
    ))
}

fn command_reference(path: &str, command: &Command, text: &mut String) {
    let rows: String = command.get_arguments().filter_map(flag_row).collect();
    let about = command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    if !rows.is_empty() {
        write!(
            text,
            "\n### `{path}`\n\n{}.\n\n| Flag | Default | Meaning |\n|---|---|---|\n{rows}",
            cell(&about)
        )
        .unwrap();
    }
    for child in command.get_subcommands() {
        if child.get_name() != "help" && !child.is_hide_set() {
            command_reference(&format!("{path} {}", child.get_name()), child, text);
        }
    }
}

fn flags_reference() -> String {
    let mut text = String::new();
    let program = Cli::command();
    let general: String = program.get_arguments().filter_map(flag_row).collect();
    write!(text, "\nEvery command has these flags, and `--help`:\n\n| Flag | Default | Meaning |\n|---|---|---|\n{general}").unwrap();
    let mut commands: Vec<&Command> = program
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .collect();
    // The components of the control plane precede the other commands.
    commands.sort_by_key(|command| {
        !["scheduler", "controllers", "webhook", "estimator"].contains(&command.get_name())
    });
    for command in commands {
        command_reference(&format!("berth {}", command.get_name()), command, &mut text);
    }
    text
}

/// Checks that the stored page equals the generated page.
#[test]
fn the_configuration_page_is_current() {
    let fresh = format!(
        "{HEAD}{}\n## Feature gates\n\n{GATES}\n{}\n## Flags\n{}",
        file_reference(),
        gates_table(),
        flags_reference()
    );
    assert_current(PAGE, &fresh);
}
