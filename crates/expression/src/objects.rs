//! Conversion of objects to CEL values. Only the fields that some expression reads are converted, because the status of
//! a cluster can be larger than all other fields.

use std::collections::HashMap;

use berth_api::cluster::ClusterStatus;
use berth_api::cluster_score::ClusterScores;
use berth_api::{Binding, Cluster};
use berth_cel::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt,
};
use berth_cel::{Scope, Val, Variables};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::check::Paths;
use super::variables::{AGE, BINDING, CLUSTER, SCORES};

/// Returns a CEL scope with the functions and the variable `cluster`.
///
/// `cluster.scores` contains the scores that are valid at `now`. It is empty if there is none.
pub(crate) fn cluster(
    object: &Cluster,
    scores: Option<&ClusterScores>,
    now: Timestamp,
    reads: &Paths,
) -> Result<Scope<'static>, String> {
    let mut fields = Fields::new(reads);
    fields.add("apiVersion", &"cluster.karmada.io/v1alpha1")?;
    fields.add("kind", &"Cluster")?;
    fields.add("metadata", &object.metadata)?;
    fields.add("spec", &object.spec)?;
    if let Some(status) = &object.status {
        if reads.includes(&["status", "apiEnablements"]) {
            fields.add("status", status)?;
        } else if reads.includes(&["status"]) {
            fields.add(
                "status",
                &ClusterStatus {
                    kubernetes_version: status.kubernetes_version.clone(),
                    api_enablements: Vec::new(),
                    conditions: status.conditions.clone(),
                    node_summary: status.node_summary.clone(),
                    resource_summary: status.resource_summary.clone(),
                    remedy_actions: status.remedy_actions.clone(),
                },
            )?;
        }
    }
    if reads.includes(&[SCORES]) {
        let valid = scores.into_iter().flat_map(|scores| scores.valid_at(now));
        let values: serde_json::Map<String, Value> = valid
            .map(|score| {
                let fields = json!({ "value": score.value, AGE: score.age_seconds(now) });
                (score.name.clone(), fields)
            })
            .collect();
        fields.add(SCORES, &values)?;
    }
    let variables = Variables::from([(CLUSTER.to_owned(), fields.build())]);
    Ok(Scope::new(variables))
}

/// Returns the variable `binding`, or no variable if no expression reads the binding.
pub(crate) fn binding(object: Option<&Binding>, reads: &Paths) -> Result<Variables, String> {
    if reads.is_empty() {
        return Ok(Variables::new());
    }
    let object = object.ok_or("the binding's object is missing")?;
    let mut fields = Fields::new(reads);
    fields.add("metadata", &object.metadata)?;
    fields.add("spec", &object.spec)?;
    Ok(Variables::from([(BINDING.to_owned(), fields.build())]))
}

/// The top-level fields of an object that expressions read.
struct Fields<'a> {
    reads: &'a Paths,
    map: HashMap<CelMapKey, Box<dyn Val>>,
}

impl<'a> Fields<'a> {
    fn new(reads: &'a Paths) -> Self {
        Self {
            reads,
            map: HashMap::new(),
        }
    }

    fn add(&mut self, name: &str, value: &impl Serialize) -> Result<(), String> {
        if self.reads.includes(&[name]) {
            let value = serde_json::to_value(value).map_err(|error| format!("{name}: {error}"))?;
            let value = convert(&value, self.reads, &mut vec![name]);
            self.map.insert(name.into(), value);
        }
        Ok(())
    }

    fn build(self) -> Box<dyn Val> {
        Box::new(CelMap::from(self.map))
    }
}

fn convert<'a>(value: &'a Value, reads: &Paths, path: &mut Vec<&'a str>) -> Box<dyn Val> {
    match value {
        Value::Object(object) => {
            let mut map = HashMap::new();
            for (name, value) in object {
                path.push(name);
                if reads.includes(path) {
                    map.insert(name.as_str().into(), convert(value, reads, path));
                }
                path.pop();
            }
            Box::new(CelMap::from(map))
        }
        // A path ends at a list, so the items of the list are converted completely.
        Value::Array(items) => {
            let all = Paths::everything();
            let items = items
                .iter()
                .map(|item| convert(item, &all, &mut Vec::new()));
            Box::new(CelList::from(items.collect::<Vec<_>>()))
        }
        Value::Null => Box::new(CelNull),
        Value::Bool(value) => Box::new(CelBool::from(*value)),
        Value::String(text) => Box::new(CelString::from(text.as_str())),
        Value::Number(number) => {
            if let Some(number) = number.as_i64() {
                Box::new(CelInt::from(number))
            } else if let Some(number) = number.as_u64() {
                Box::new(CelUInt::from(number))
            } else {
                Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN)))
            }
        }
    }
}
