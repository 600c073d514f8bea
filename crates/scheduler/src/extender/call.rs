//! The calls: what is sent for a question, and what an answer to it means.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use berth_core::Snapshot;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

use super::answers::{Answer, CallError, Names, Question, Reason};
use super::wire::{
    ClusterList, ExtenderArgs, FilterResult, HostPriorityList, PreemptionArgs, PreemptionResult,
    VictimBinding, Victims,
};
use crate::binding::{Binding, BindingKey};
use crate::framework::Victim;

/// The highest score of an extender; the highest one of a plugin is 100.
const HIGHEST_SCORE: i64 = 10;
/// What the scores of extenders are multiplied by, besides their weight.
const SCALE: i64 = 100 / HIGHEST_SCORE;

/// What is sent: the binding, and what is asked about.
#[derive(Debug)]
pub(super) struct Outgoing<'a> {
    pub(super) binding: &'a Binding,
    /// Where the objects of clusters are, for an extender that does not know them itself.
    pub(super) objects: Option<&'a Snapshot>,
}

impl Outgoing<'_> {
    /// The body of a question.
    pub(super) fn body(&self, question: &Question) -> Result<Vec<u8>, CallError> {
        let binding = self.binding_json()?;
        match question {
            Question::Filter(names) | Question::Prioritize(names) => {
                let clusters = self.objects.map(|snapshot| ClusterList {
                    items: objects(snapshot, names),
                });
                let cluster_names = clusters
                    .is_none()
                    .then(|| names.iter().map(ToString::to_string).collect());
                json(&ExtenderArgs {
                    binding,
                    clusters,
                    cluster_names,
                })
            }
            Question::Preempt(victims) => json(&PreemptionArgs {
                binding,
                cluster_name_to_victims: by_cluster(victims),
            }),
        }
    }

    fn binding_json(&self) -> Result<Box<RawValue>, CallError> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Object<'a> {
            api_version: &'static str,
            kind: &'static str,
            metadata: &'a k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            spec: &'a berth_api::binding::BindingSpec,
            status: &'a berth_api::binding::BindingStatus,
        }
        let object = Object {
            api_version: "work.karmada.io/v1alpha2",
            kind: self.binding.key.kind(),
            metadata: &self.binding.metadata,
            spec: &self.binding.spec,
            status: &self.binding.status,
        };
        to_raw_value(&object).map_err(|error| CallError::Malformed(error.to_string()))
    }
}

pub(super) fn json(message: &impl Serialize) -> Result<Vec<u8>, CallError> {
    serde_json::to_vec(message).map_err(|error| CallError::Malformed(error.to_string()))
}

/// The objects of those clusters that are still there.
fn objects(snapshot: &Snapshot, names: &Names) -> Vec<Arc<berth_api::Cluster>> {
    names
        .iter()
        .filter_map(|name| {
            let cluster = snapshot.cluster(snapshot.ordinal(name)?)?;
            cluster.object().cloned()
        })
        .collect()
}

fn by_cluster(victims: &BTreeSet<Victim>) -> BTreeMap<String, Victims> {
    let mut all: BTreeMap<String, Victims> = BTreeMap::new();
    for Victim { key, cluster } in victims {
        let bindings = &mut all.entry(cluster.clone()).or_default().bindings;
        bindings.get_or_insert_default().push(VictimBinding {
            namespace: key.namespace.as_deref().unwrap_or_default().to_owned(),
            name: key.name.to_string(),
        });
    }
    all
}

/// What an extender with this weight means by its answer to a question. `names_only`: which of the two ways
/// to name clusters counts, where it uses both.
pub(super) fn read(
    question: &Question,
    weight: i64,
    names_only: bool,
    answer: &[u8],
) -> Result<Answer, CallError> {
    match question {
        Question::Filter(sent) => read_filter(sent, names_only, &parse_object(answer)?),
        Question::Prioritize(sent) => read_scores(sent, weight, parse(answer)?),
        Question::Preempt(sent) => read_victims(sent, parse_object(answer)?),
    }
}

/// An answer that is an object. Serde would take a list for one, too.
pub(super) fn parse_object<T: DeserializeOwned>(answer: &[u8]) -> Result<T, CallError> {
    match answer.trim_ascii_start().first() {
        Some(b'[') => Err(CallError::Malformed(
            "it is a list, not an object".to_owned(),
        )),
        _ => parse(answer),
    }
}

/// An answer in its type.
fn parse<T: DeserializeOwned>(answer: &[u8]) -> Result<T, CallError> {
    let mut deserializer = serde_json::Deserializer::from_slice(answer);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let text = error.into_inner().to_string();
        CallError::Malformed(if path == "." {
            text
        } else {
            format!("{path}: {text}")
        })
    })
}

fn read_filter(sent: &Names, names_only: bool, answer: &FilterResult) -> Result<Answer, CallError> {
    if let Some(error) = answer.error.as_deref().filter(|error| !error.is_empty()) {
        return Err(CallError::Refused(error.to_owned()));
    }
    let by_name = answer.cluster_names.as_ref();
    let by_name = by_name.map(|names| names.iter().map(String::as_str).collect::<Vec<_>>());
    let by_object = answer.clusters.as_ref().map(|clusters| {
        let items = clusters.items.iter().flatten();
        items.map(|item| item.metadata.name.as_str()).collect()
    });
    let passing: HashSet<&str> = if names_only {
        by_name.or(by_object)
    } else {
        by_object.or(by_name)
    }
    .unwrap_or_default()
    .into_iter()
    .collect();
    let unresolvable = answer.failed_and_unresolvable_clusters.as_ref();
    let failed = answer.failed_clusters.as_ref();
    let known: HashSet<&str> = sent.iter().map(|name| &**name).collect();
    let named = passing.iter().copied();
    let named = named.chain(
        unresolvable
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str()),
    );
    let named = named.chain(failed.into_iter().flatten().map(|(name, _)| name.as_str()));
    if let Some(name) = named.into_iter().filter(|name| !known.contains(name)).min() {
        return Err(cluster_not_sent(name));
    }
    let reason = |name: &str| {
        let given = unresolvable
            .and_then(|reasons| reasons.get(name))
            .or_else(|| failed?.get(name))
            .filter(|reason| !reason.is_empty());
        given.map_or(
            Cow::Borrowed("cluster(s) did not pass an extender"),
            |reason| Cow::Owned(reason.clone()),
        )
    };
    let refused: HashMap<Arc<str>, Reason> = sent
        .iter()
        .filter(|name| !passing.contains(&***name))
        .map(|name| (Arc::clone(name), reason(name)))
        .collect();
    Ok(Answer::Refused(Arc::new(refused)))
}

fn read_scores(sent: &Names, weight: i64, answer: HostPriorityList) -> Result<Answer, CallError> {
    let known: HashMap<&str, &Arc<str>> = sent.iter().map(|name| (&**name, name)).collect();
    let mut scores: HashMap<Arc<str>, i64> = HashMap::new();
    for one in answer.0.unwrap_or_default() {
        let Some(name) = known.get(one.host.as_str()) else {
            return Err(cluster_not_sent(&one.host));
        };
        if !(0..=HIGHEST_SCORE).contains(&one.score) {
            return Err(CallError::Malformed(format!(
                "the score of cluster {:?} is {}, not 0 to {HIGHEST_SCORE}",
                one.host, one.score
            )));
        }
        let score = one.score.saturating_mul(SCALE).saturating_mul(weight);
        let sum = scores.entry(Arc::clone(name)).or_default();
        *sum = sum.saturating_add(score);
    }
    Ok(Answer::Scores(Arc::new(scores)))
}

fn read_victims(sent: &BTreeSet<Victim>, answer: PreemptionResult) -> Result<Answer, CallError> {
    let mut kept = BTreeSet::new();
    for (cluster, victims) in answer.cluster_name_to_victims.unwrap_or_default() {
        if !sent.iter().any(|victim| victim.cluster == cluster) {
            return Err(cluster_not_sent(&cluster));
        }
        for binding in victims.bindings.unwrap_or_default() {
            let namespace = Some(binding.namespace).filter(|namespace| !namespace.is_empty());
            let victim = Victim {
                key: BindingKey {
                    namespace: namespace.map(Arc::from),
                    name: binding.name.into(),
                },
                cluster: cluster.clone(),
            };
            if !sent.contains(&victim) {
                return Err(CallError::NotSent {
                    what: "binding",
                    name: victim.key.to_string(),
                });
            }
            kept.insert(victim);
        }
    }
    Ok(Answer::Victims(Arc::new(kept)))
}

fn cluster_not_sent(name: &str) -> CallError {
    CallError::NotSent {
        what: "cluster",
        name: name.to_owned(),
    }
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
