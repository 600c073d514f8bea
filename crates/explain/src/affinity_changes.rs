//! Changes that make a cluster affinity match a cluster: changes of the affinity, or of the cluster's labels and
//! fields.

use std::collections::BTreeMap;

use berth_api::field_selector::FieldRequirement;
use berth_api::label_selector::Relation;
use berth_api::placement::ClusterAffinity;
use berth_engine::ClusterView;

use crate::change::Change;
use crate::changed_case::Explained;

/// Returns a list of changes for each affinity of the placement that does not match the cluster but can be made to
/// match it. With all changes of a list, the affinity matches the cluster.
pub(crate) fn proposals(name: &str, explained: &Explained) -> Vec<Vec<Change>> {
    let snapshot = &explained.snapshot;
    let Some(cluster) = snapshot
        .ordinal(name)
        .and_then(|ordinal| snapshot.cluster(ordinal))
    else {
        return Vec::new();
    };
    let Some(placement) = &explained.binding.spec.placement else {
        return Vec::new();
    };
    if let Some(affinity) = &placement.cluster_affinity {
        return changes(affinity, None, &cluster).into_iter().collect();
    }
    let mut all = Vec::new();
    for term in &placement.cluster_affinities {
        let term_name = Some(term.affinity_name.as_str());
        all.extend(changes(&term.affinity, term_name, &cluster));
        for overflow in &term.overflow_affinities {
            // A [`Change`] cannot modify the name lists of overflow groups, so use only changes of the cluster.
            let found = changes(&overflow.affinity, term_name, &cluster);
            all.extend(found.filter(|changes| changes.iter().all(|c| c.cluster().is_some())));
        }
    }
    all
}

/// Returns the changes that make one affinity match the cluster. Returns `None` if the affinity already matches, or if
/// no changes make it match.
fn changes(
    affinity: &ClusterAffinity,
    term: Option<&str>,
    cluster: &ClusterView<'_>,
) -> Option<Vec<Change>> {
    let name = cluster.name();
    let is_named = |names: &[String]| names.iter().any(|other| other == name);
    let mut changes = Vec::new();
    if is_named(&affinity.exclude_clusters) {
        changes.push(Change::DropExclude {
            cluster: name.to_owned(),
            affinity: term.map(str::to_owned),
        });
    }
    if !affinity.cluster_names.is_empty() && !is_named(&affinity.cluster_names) {
        changes.push(Change::AddClusterName {
            cluster: name.to_owned(),
            affinity: term.map(str::to_owned),
        });
    }
    changes.extend(label_changes(affinity, cluster)?);
    changes.extend(field_changes(affinity, cluster)?);
    (!changes.is_empty()).then_some(changes)
}

fn label_changes(affinity: &ClusterAffinity, cluster: &ClusterView<'_>) -> Option<Vec<Change>> {
    let Some(selector) = &affinity.label_selector else {
        return Some(Vec::new());
    };
    let compiled = selector.compile().ok()?;
    let mut wanted: BTreeMap<&str, Option<String>> = BTreeMap::new();
    for requirement in compiled.requirements() {
        let key = requirement.key();
        let present = match wanted.get(key) {
            Some(value) => value.as_deref(),
            None => cluster.label(key),
        };
        if !requirement.relation().matches(present) {
            wanted.insert(key, value_for(requirement.relation())?);
        }
    }
    let name = cluster.name();
    let change = |(key, value): (&str, Option<String>)| match value {
        Some(value) => Change::SetLabel {
            cluster: name.to_owned(),
            key: key.to_owned(),
            value,
        },
        None => Change::RemoveLabel {
            cluster: name.to_owned(),
            key: key.to_owned(),
        },
    };
    Some(wanted.into_iter().map(change).collect())
}

/// Returns a value that satisfies a relation. `Some(None)` means that an absent key satisfies the relation. `None`
/// means that no value satisfies the relation.
#[expect(
    clippy::option_option,
    reason = "the outer option says whether a value exists, the inner one is the value"
)]
fn value_for(relation: &Relation) -> Option<Option<String>> {
    match relation {
        Relation::In(values) => values.first().cloned().map(Some),
        Relation::NotIn(_) | Relation::DoesNotExist => Some(None),
        Relation::Exists => Some(Some("true".to_owned())),
        Relation::GreaterThan(number) => number.checked_add(1).map(|n| Some(n.to_string())),
        Relation::LessThan(number) => number.checked_sub(1).map(|n| Some(n.to_string())),
    }
}

fn field_changes(affinity: &ClusterAffinity, cluster: &ClusterView<'_>) -> Option<Vec<Change>> {
    let Some(selector) = &affinity.field_selector else {
        return Some(Vec::new());
    };
    let compiled = selector.compile().ok()?;
    let zones: Vec<String> = cluster.zones().map(str::to_owned).collect();
    let mut changes = Vec::new();
    for requirement in compiled.requirements() {
        let (field, relation, present) = match requirement {
            FieldRequirement::Zones(relation) => ("zone", relation, None),
            FieldRequirement::Field(requirement) => {
                let present = match requirement.key() {
                    "provider" => cluster.provider(),
                    "region" => cluster.region(),
                    // No cluster has other fields.
                    _ => return None,
                };
                let present = Some(present).filter(|value| !value.is_empty());
                (requirement.key(), requirement.relation(), present)
            }
        };
        let set = |value: String| Change::SetField {
            cluster: cluster.name().to_owned(),
            field: field.to_owned(),
            value,
        };
        let remove = |value: &str| Change::RemoveField {
            cluster: cluster.name().to_owned(),
            field: field.to_owned(),
            value: value.to_owned(),
        };
        if field != "zone" {
            if relation.matches(present) {
                continue;
            }
            changes.push(match value_for(relation)? {
                Some(value) => set(value),
                None => remove(present?),
            });
            continue;
        }
        match relation {
            Relation::In(values) if !zones.iter().any(|zone| values.contains(zone)) => {
                changes.push(set(values.first()?.clone()));
            }
            Relation::NotIn(values) => changes.extend(
                zones
                    .iter()
                    .filter(|zone| values.contains(zone))
                    .map(|zone| remove(zone)),
            ),
            Relation::Exists if zones.is_empty() => {
                changes.push(set(format!("zone-of-{}", cluster.name())));
            }
            Relation::DoesNotExist => changes.extend(zones.iter().map(|zone| remove(zone))),
            Relation::GreaterThan(_) | Relation::LessThan(_) => return None,
            Relation::In(_) | Relation::Exists => {}
        }
    }
    Some(changes)
}
