//! The command `berth get clusters`. It prints the members as a table, as names, as JSON or as YAML.

use std::io;

use berth_api::well_known::CONDITION_READY;
use berth_api::{Cluster, condition};
use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use super::cordon::is_cordoned;
use super::{ClustersError, get};
use crate::columns::{align, cell};
use crate::control_plane::ControlPlaneArgs;
use crate::member_name;
use crate::output;

/// Subcommands of `berth get`.
#[derive(Clone, Debug, Subcommand)]
pub enum Get {
    /// List the members
    #[command(visible_alias = "cluster")]
    Clusters(ListArgs),
}

/// Flags of `berth get clusters`.
#[derive(Args, Clone, Debug)]
pub struct ListArgs {
    /// Names of members [default: all]
    #[arg(value_name = "NAME", value_parser = member_name::parse)]
    pub names: Vec<String>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: Output,

    /// Flags that select the control plane.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A table.
    Table,
    /// A table with more columns.
    Wide,
    /// `cluster/NAME`, one per line.
    Name,
    /// The objects as JSON.
    Json,
    /// The objects as YAML.
    Yaml,
}

/// Prints the members.
///
/// # Errors
/// Fails if the members cannot be read, or if a named member does not exist.
pub async fn run(get: Get) -> Result<(), ClustersError> {
    let Get::Clusters(args) = get;
    let clusters: Api<Cluster> = Api::all(super::client(&args.control_plane).await?);
    let shown = if args.names.is_empty() {
        let all = clusters.list(&ListParams::default()).await;
        all.map_err(|error| ClustersError::refused("list the members", error))?
            .items
    } else {
        let mut named = Vec::with_capacity(args.names.len());
        for name in &args.names {
            named.push(self::get(&clusters, name).await?);
        }
        named
    };
    let text = match args.output {
        Output::Name => {
            let name = |cluster: &Cluster| format!("cluster/{}", cluster.name_any());
            let mut lines: Vec<String> = shown.iter().map(name).collect();
            lines.push(String::new());
            lines.join("\n")
        }
        Output::Json => format!("{:#}\n", list(&shown)),
        Output::Yaml => serde_saphyr::to_string(&list(&shown)).map_err(io::Error::other)?,
        Output::Table | Output::Wide if shown.is_empty() => {
            "no members: add a cluster with `berth join`\n".to_owned()
        }
        Output::Table => table(&shown, false, Timestamp::now()),
        Output::Wide => table(&shown, true, Timestamp::now()),
    };
    output::print(&text)?;
    Ok(())
}

/// Returns the objects as a List, the format that kubectl prints.
fn list(clusters: &[Cluster]) -> Value {
    json!({ "apiVersion": "v1", "kind": "List", "items": clusters })
}

const COLUMNS: [&str; 6] = ["NAME", "VERSION", "MODE", "READY", "CORDONED", "AGE"];
const WIDE_COLUMNS: [&str; 5] = ["PROVIDER", "REGION", "ZONES", "TAINTS", "API-ENDPOINT"];

fn table(clusters: &[Cluster], wide: bool, now: Timestamp) -> String {
    let mut header = COLUMNS.to_vec();
    if wide {
        header.extend(WIDE_COLUMNS);
    }
    let rows: Vec<Vec<String>> = clusters
        .iter()
        .map(|cluster| row(cluster, wide, now))
        .collect();
    align(&header, &rows)
}

fn row(cluster: &Cluster, wide: bool, now: Timestamp) -> Vec<String> {
    let (spec, status) = (&cluster.spec, cluster.status.as_ref());
    let ready = status.and_then(|status| condition::find(&status.conditions, CONDITION_READY));
    let created = cluster.creation_timestamp();
    let cordoned = if is_cordoned(&spec.taints) {
        "yes"
    } else {
        "no"
    };
    let mut row = vec![
        cluster.name_any(),
        cell(status.and_then(|status| status.kubernetes_version.clone())),
        spec.sync_mode.to_string(),
        ready.map_or_else(|| "Unknown".to_owned(), |ready| ready.status.clone()),
        cordoned.to_owned(),
        cell(created.map(|created| age(now.duration_since(created.0).as_secs()))),
    ];
    if wide {
        let joined = |list: Vec<String>| (!list.is_empty()).then(|| list.join(","));
        let taints = spec.taints.iter().map(|taint| {
            let value = taint.value.as_deref().filter(|value| !value.is_empty());
            let value = value.map(|value| format!("={value}")).unwrap_or_default();
            format!("{}{value}:{}", taint.key, taint.effect)
        });
        row.extend([
            cell(spec.provider.clone()),
            cell(spec.region.clone()),
            cell(joined(spec.zones.clone())),
            cell(joined(taints.collect())),
            cell(spec.api_endpoint.clone()),
        ]);
    }
    row
}

/// Formats an age in its largest suitable unit.
pub(crate) fn age(seconds: i64) -> String {
    const UNITS: [(i64, &str); 3] = [(86_400, "d"), (3_600, "h"), (60, "m")];
    let seconds = seconds.max(0);
    for (unit, letter) in UNITS {
        // A unit is used from two upwards, because `119m` is more precise than `1h`.
        if seconds >= 2 * unit {
            return format!("{}{letter}", seconds / unit);
        }
    }
    format!("{seconds}s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_uses_the_largest_unit_that_fits_at_least_twice() {
        for (seconds, text) in [
            (-5, "0s"),
            (119, "119s"),
            (120, "2m"),
            (7_199, "119m"),
            (7_200, "2h"),
            (172_800, "2d"),
        ] {
            assert_eq!(age(seconds), text);
        }
    }

    #[test]
    fn missing_values_are_dashes() {
        let cluster: Cluster = serde_json::from_value(json!({
            "metadata": { "name": "m1" },
            "spec": { "syncMode": "Push", "region": "eu", "taints": [
                { "key": "cluster.karmada.io/unschedulable", "effect": "NoSchedule" },
                { "key": "a", "value": "b", "effect": "NoExecute" }] },
        }))
        .unwrap();
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(
            row(&cluster, true, now),
            [
                "m1",
                "-",
                "Push",
                "Unknown",
                "yes",
                "-",
                "-",
                "eu",
                "-",
                "cluster.karmada.io/unschedulable:NoSchedule,a=b:NoExecute",
                "-"
            ]
        );
    }
}
