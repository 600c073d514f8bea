//! The completion indexes of the pods of Indexed Jobs. One pod must succeed for each index.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, Pod};
use kube::ResourceExt as _;

/// The label and annotation that contain the index of a pod.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The environment variable that contains the index of a pod.
const VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// Returns the index of a pod.
pub(crate) fn of(pod: &Pod) -> Option<usize> {
    pod.annotations().get(INDEX)?.parse().ok()
}

/// Formats indexes for the status of a Job, such as `0-2,5`.
pub(crate) fn format_indexes(indexes: &BTreeSet<usize>) -> Option<String> {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for &index in indexes {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == index => *last = index,
            _ => spans.push((index, index)),
        }
    }
    let text = spans.iter().map(|(first, last)| {
        // Two consecutive indexes are written as two numbers.
        match last - first {
            0 => first.to_string(),
            1 => format!("{first},{last}"),
            _ => format!("{first}-{last}"),
        }
    });
    (!spans.is_empty()).then(|| text.collect::<Vec<_>>().join(","))
}

/// Assigns an index to a pod.
pub(crate) fn assign(pod: &mut Pod, job: &str, index: usize) {
    let number = index.to_string();
    for marks in [&mut pod.metadata.annotations, &mut pod.metadata.labels] {
        marks
            .get_or_insert_default()
            .insert(INDEX.to_owned(), number.clone());
    }
    let Some(spec) = &mut pod.spec else {
        return;
    };
    spec.hostname = Some(format!("{job}-{index}"));
    let containers = spec.containers.iter_mut();
    for container in containers.chain(spec.init_containers.iter_mut().flatten()) {
        let variables = container.env.get_or_insert_default();
        if !variables.iter().any(|variable| variable.name == VARIABLE) {
            variables.push(variable());
        }
    }
}

fn variable() -> EnvVar {
    EnvVar {
        name: VARIABLE.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                api_version: None,
                field_path: format!("metadata.labels['{INDEX}']"),
            }),
            ..EnvVarSource::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_consecutive_indexes_are_a_span() {
        for (indexes, text) in [
            (vec![], None),
            (vec![0], Some("0")),
            (vec![0, 1], Some("0,1")),
            (vec![0, 1, 2, 5], Some("0-2,5")),
            (vec![1, 3, 4, 7, 8, 9], Some("1,3,4,7-9")),
        ] {
            let indexes: BTreeSet<usize> = indexes.into_iter().collect();
            assert_eq!(format_indexes(&indexes).as_deref(), text, "{indexes:?}");
        }
    }
}
