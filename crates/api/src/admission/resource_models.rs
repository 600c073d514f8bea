//! The default resource models of Clusters, and the validation of resource models.

use serde_json::{Value, json};

use crate::cluster::ResourceModel;

/// The upper bounds of the default grades, in CPU cores and GiB of memory. The last grade has no upper bound and is not
/// listed.
const DEFAULT_BOUNDS: [(u32, u32); 8] = [
    (1, 4),
    (2, 16),
    (4, 32),
    (8, 64),
    (16, 128),
    (32, 256),
    (64, 512),
    (128, 1024),
];
/// The upper bound that Karmada writes for an unlimited range.
const UNBOUNDED: &str = "9223372036854775807";

/// Returns the resource models for a Cluster that declares no models.
pub(super) fn default_models() -> Value {
    let memory = |gib: u32| match gib {
        0 => "0".to_owned(),
        1024 => "1Ti".to_owned(),
        gib => format!("{gib}Gi"),
    };
    let mut models = Vec::new();
    let mut low = (0, 0);
    for (grade, bounds) in DEFAULT_BOUNDS
        .iter()
        .map(|high| Some(*high))
        .chain([None])
        .enumerate()
    {
        let (cpu, bytes) = match bounds {
            Some((cores, gib)) => (cores.to_string(), memory(gib)),
            None => (UNBOUNDED.to_owned(), UNBOUNDED.to_owned()),
        };
        models.push(json!({
            "grade": grade,
            "ranges": [
                { "name": "cpu", "min": low.0.to_string(), "max": cpu },
                { "name": "memory", "min": memory(low.1), "max": bytes },
            ],
        }));
        low = bounds.unwrap_or(low);
    }
    Value::Array(models)
}

/// Sorts the models by grade. Sets the lower bounds of the first model to zero and the upper bounds of the last model
/// to [`UNBOUNDED`].
pub(super) fn standardize(models: &mut [Value]) {
    models.sort_by_key(|model| model.get("grade").and_then(Value::as_u64));
    if let Some(first) = models.first_mut() {
        set_in_ranges(first, "min", "0");
    }
    if let Some(last) = models.last_mut() {
        set_in_ranges(last, "max", UNBOUNDED);
    }
}

fn set_in_ranges(model: &mut Value, bound: &str, value: &str) {
    let ranges = model.get_mut("ranges").and_then(Value::as_array_mut);
    for range in ranges.into_iter().flatten() {
        if let Some(range) = range.as_object_mut() {
            range.insert(bound.to_owned(), json!(value));
        }
    }
}

/// Returns the first problem in a list of models, or `None` if the list is valid.
pub(super) fn first_problem(models: &[ResourceModel]) -> Option<&'static str> {
    for (index, model) in models.iter().enumerate() {
        let previous = index.checked_sub(1).and_then(|index| models.get(index));
        if let Some(previous) = previous {
            if previous.grade == model.grade {
                return Some("the grade of each models should not be the same");
            }
            if previous.ranges.len() != model.ranges.len() {
                return Some("the number of resource types should be the same");
            }
        }
        for (position, range) in model.ranges.iter().enumerate() {
            let (Ok(min), Ok(max)) = (range.min.parse(), range.max.parse()) else {
                return Some("min and max must be quantities");
            };
            if max <= min {
                return Some("the max value of each resource must be greater than the min value");
            }
            match previous.and_then(|previous| previous.ranges.get(position)) {
                None if !min.is_zero() => {
                    return Some("the min value of each resource in the first model should be 0");
                }
                Some(previous) if previous.name != range.name => {
                    return Some("the resource types of each models should be the same");
                }
                Some(previous) if previous.max.parse().ok() != Some(min) => {
                    return Some("model intervals must be contiguous and non-overlapping");
                }
                _ => {}
            }
            if index + 1 == models.len() && max.value() != i64::MAX {
                return Some("the max value of each resource in the last model should be MaxInt64");
            }
        }
    }
    None
}
