//! The text of a change, which is an instruction to the user.

use std::fmt;

use crate::change::Change;

/// Formats the change as an instruction, for example `uncordon member1`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |affinity: &Option<String>| match affinity {
            Some(name) => format!("the affinity term {name}"),
            None => "clusterAffinity".to_owned(),
        };
        match self {
            Self::Uncordon { cluster } => write!(f, "uncordon {cluster}"),
            Self::SetLabel {
                cluster,
                key,
                value,
            } => write!(f, "label {cluster} with {key}={value}"),
            Self::RemoveLabel { cluster, key } => write!(f, "remove the label {key} of {cluster}"),
            Self::SetField {
                cluster,
                field,
                value,
            } => write!(f, "set the {field} of {cluster} to {value}"),
            Self::RemoveField {
                cluster,
                field,
                value,
            } => write!(f, "remove the {field} {value} of {cluster}"),
            Self::RemoveTaint { cluster, taint } => match taint.key.as_str() {
                "cluster.karmada.io/not-ready" | "cluster.karmada.io/unreachable" => {
                    write!(f, "make {cluster} ready, which removes its taint {taint}")
                }
                _ => write!(f, "remove the taint {taint} of {cluster}"),
            },
            Self::Tolerate { taint } => write!(f, "tolerate {taint} in the policy"),
            Self::AddClusterName { cluster, affinity } => {
                write!(f, "add {cluster} to clusterNames of {}", of(affinity))
            }
            Self::DropExclude { cluster, affinity } => {
                write!(f, "remove {cluster} from exclude of {}", of(affinity))
            }
            Self::RaiseMaxGroups { by, from: 0, to } => {
                write!(f, "add a spread constraint by {by} with maxGroups {to}")
            }
            Self::RaiseMaxGroups { by, from, to } => write!(
                f,
                "raise maxGroups of the spread constraint by {by} from {from} to {to}"
            ),
            Self::LowerMinGroups { by, from, to } => write!(
                f,
                "lower minGroups of the spread constraint by {by} from {from} to {to}"
            ),
            Self::EndEviction { cluster } => write!(f, "end the eviction from {cluster}"),
            Self::SetWeight { cluster, weight } => {
                write!(f, "give {cluster} the static weight {weight}")
            }
            Self::Reschedule => f.write_str("request rescheduling with a WorkloadRebalancer"),
            Self::ScaleReplicas { from, to } => {
                write!(f, "scale the workload from {from} to {to} replicas")
            }
            Self::InstallApi {
                cluster,
                api_version,
                api_kind,
            } => write!(f, "install the API {api_version} {api_kind} in {cluster}"),
            Self::RaiseRoom { cluster, from, to } => write!(
                f,
                "make room for {to} replicas in {cluster} (there is room for {from})"
            ),
        }
    }
}
