//! `--feature-gates`: Karmada's names, and ours.

use berth_core::Gates;

/// When a gate is on without being named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Alpha,
    Beta,
}

/// Sets one gate of the engine.
type Setter = fn(&mut Gates, bool);

/// A gate that other components of the control plane read: accepted here, so that one list of gates can be
/// given to all of them, as the field does it.
const ELSEWHERE: Setter = |_, _| {};

const GATES: &[(&str, Stage, Setter)] = &[
    ("PriorityBasedScheduling", Stage::Beta, ELSEWHERE),
    (
        "CustomizedClusterResourceModeling",
        Stage::Beta,
        |gates, on| gates.customized_cluster_resource_modeling = on,
    ),
    (
        "MultiplePodTemplatesScheduling",
        Stage::Alpha,
        |gates, on| gates.multiple_pod_templates_scheduling = on,
    ),
    ("Failover", Stage::Beta, ELSEWHERE),
    ("GracefulEviction", Stage::Beta, ELSEWHERE),
    ("PropagateDeps", Stage::Beta, ELSEWHERE),
    ("PropagationPolicyPreemption", Stage::Alpha, ELSEWHERE),
    ("MultiClusterService", Stage::Alpha, ELSEWHERE),
    ("ResourceQuotaEstimate", Stage::Alpha, ELSEWHERE),
    ("StatefulFailoverInjection", Stage::Alpha, ELSEWHERE),
    ("FederatedQuotaEnforcement", Stage::Alpha, ELSEWHERE),
    ("ControllerPriorityQueue", Stage::Beta, ELSEWHERE),
    ("LoggingAlphaOptions", Stage::Alpha, ELSEWHERE),
    ("LoggingBetaOptions", Stage::Beta, ELSEWHERE),
    ("ContextualLogging", Stage::Beta, ELSEWHERE),
];

/// Parses `Name=true,Name=false`; later entries win, and `AllAlpha`/`AllBeta` set what is not named.
///
/// # Errors
/// When an entry is no `Name=bool`, or names no gate.
pub fn parse(text: &str) -> Result<Gates, String> {
    let mut all = Vec::new();
    let mut named = Vec::new();
    for entry in text
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
    {
        let (name, value) = entry
            .split_once('=')
            .ok_or_else(|| format!("{entry:?} is not Name=true or Name=false"))?;
        let on = match value.trim() {
            "true" | "True" | "TRUE" | "t" | "T" | "1" => true,
            "false" | "False" | "FALSE" | "f" | "F" | "0" => false,
            other => return Err(format!("{name}={other}: must be true or false")),
        };
        match name.trim() {
            "AllAlpha" => all.push((Stage::Alpha, on)),
            "AllBeta" => all.push((Stage::Beta, on)),
            name => {
                let gate = GATES.iter().find(|(known, ..)| *known == name);
                named.push((
                    gate.ok_or_else(|| format!("unrecognized feature gate: {name}"))?
                        .2,
                    on,
                ));
            }
        }
    }
    let mut gates = Gates::default();
    for (stage, on) in all {
        for (_, _, set) in GATES.iter().filter(|(_, of, _)| *of == stage) {
            set(&mut gates, on);
        }
    }
    for (set, on) in named {
        set(&mut gates, on);
    }
    Ok(gates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_set_by_name_and_by_stage() {
        assert_eq!(parse(""), Ok(Gates::default()));
        let gates =
            parse("CustomizedClusterResourceModeling=false,MultiplePodTemplatesScheduling=true")
                .unwrap();
        assert!(
            !gates.customized_cluster_resource_modeling && gates.multiple_pod_templates_scheduling
        );
        let gates =
            parse("MultiplePodTemplatesScheduling=false,AllAlpha=true,AllBeta=false").unwrap();
        assert!(
            !gates.multiple_pod_templates_scheduling,
            "a named gate wins over its stage"
        );
        assert!(!gates.customized_cluster_resource_modeling);
    }

    #[test]
    fn what_is_no_gate_is_refused_by_name() {
        assert_eq!(
            parse("Nonsense=true").unwrap_err(),
            "unrecognized feature gate: Nonsense"
        );
        assert!(parse("Failover").unwrap_err().contains("Failover"));
        assert!(parse("Failover=maybe").unwrap_err().contains("maybe"));
    }
}
