//! The conversion of a decision's requests and answers to and from HTTP bodies, with the types in `wire`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use berth_api::{Binding, BindingKey};
use berth_engine::Snapshot;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

use super::answers::{Answer, CallError, Names, Reason, Request, shorten};
use super::wire::{
    ClusterList, ExtenderArgs, FilterResult, HostPriorityList, PreemptionArgs, PreemptionResult,
    VictimBinding, Victims,
};
use crate::framework::Victim;

/// The highest score that an extender may return. The highest score of a plugin is 100.
const MAX_SCORE: i64 = 10;
/// The factor that converts the scores of extenders to the range of the scores of plugins.
const SCALE: i64 = 100 / MAX_SCORE;

/// The parts of a request body.
#[derive(Debug)]
pub(super) struct RequestBody<'a> {
    pub(super) binding: &'a Binding,
    /// The snapshot with the Cluster objects; `None` for an extender that reads names only.
    pub(super) objects: Option<&'a Snapshot>,
}

impl RequestBody<'_> {
    /// Encodes the body of a request.
    pub(super) fn encode(&self, request: &Request) -> Result<Vec<u8>, CallError> {
        let binding = self.binding_json()?;
        match request {
            Request::Filter(names) | Request::Prioritize(names) => {
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
            Request::Preempt(victims) => json(&PreemptionArgs {
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
            kind: self.binding.key.kind().name(),
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

/// Returns the Cluster objects with these names. A deleted cluster is left out.
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
            namespace: key.namespace_or_empty().to_owned(),
            name: key.name.to_string(),
        });
    }
    all
}

/// Decodes the response to a request. Scores are multiplied by `weight`. If a filter response contains both names and
/// objects of clusters, the names apply if `names_only` is true, and the objects apply otherwise.
pub(super) fn decode(
    request: &Request,
    weight: i64,
    names_only: bool,
    response: &[u8],
) -> Result<Answer, CallError> {
    match request {
        Request::Filter(sent) => decode_filter(sent, names_only, &parse_object(response)?),
        Request::Prioritize(sent) => decode_scores(sent, weight, parse(response)?),
        Request::Preempt(sent) => decode_victims(sent, parse_object(response)?),
    }
}

/// Parses a JSON object. Refuses a list, which Serde accepts in place of an object.
pub(super) fn parse_object<T: DeserializeOwned>(response: &[u8]) -> Result<T, CallError> {
    match response.trim_ascii_start().first() {
        Some(b'[') => Err(CallError::Malformed(
            "it is a list, not an object".to_owned(),
        )),
        _ => parse(response),
    }
}

fn parse<T: DeserializeOwned>(response: &[u8]) -> Result<T, CallError> {
    let mut deserializer = serde_json::Deserializer::from_slice(response);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = shorten(&error.path().to_string());
        let text = shorten(&error.into_inner().to_string());
        CallError::Malformed(if path == "." {
            text
        } else {
            format!("{path}: {text}")
        })
    })
}

fn decode_filter(
    sent: &Names,
    names_only: bool,
    result: &FilterResult,
) -> Result<Answer, CallError> {
    if let Some(error) = result.error.as_deref().filter(|error| !error.is_empty()) {
        return Err(CallError::Refused(shorten(error)));
    }
    let by_name = result.cluster_names.as_ref();
    let by_name = by_name.map(|names| names.iter().map(String::as_str).collect::<Vec<_>>());
    let by_object = result.clusters.as_ref().map(|clusters| {
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
    let unresolvable = result.failed_and_unresolvable_clusters.as_ref();
    let failed = result.failed_clusters.as_ref();
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
        let stated = unresolvable
            .and_then(|reasons| reasons.get(name))
            .or_else(|| failed?.get(name))
            .filter(|reason| !reason.is_empty());
        stated.map_or(
            Cow::Borrowed("cluster(s) did not pass an extender"),
            |reason| Cow::Owned(shorten(reason)),
        )
    };
    let rejected: HashMap<Arc<str>, Reason> = sent
        .iter()
        .filter(|name| !passing.contains(&***name))
        .map(|name| (Arc::clone(name), reason(name)))
        .collect();
    Ok(Answer::Rejected(Arc::new(rejected)))
}

fn decode_scores(sent: &Names, weight: i64, list: HostPriorityList) -> Result<Answer, CallError> {
    let known: HashMap<&str, &Arc<str>> = sent.iter().map(|name| (&**name, name)).collect();
    let mut scores: HashMap<Arc<str>, i64> = HashMap::new();
    for priority in list.0.unwrap_or_default() {
        let Some(name) = known.get(priority.host.as_str()) else {
            return Err(cluster_not_sent(&priority.host));
        };
        if !(0..=MAX_SCORE).contains(&priority.score) {
            return Err(CallError::Malformed(format!(
                "the score of cluster {:?} is {}, not 0 to {MAX_SCORE}",
                priority.host, priority.score
            )));
        }
        let score = priority.score.saturating_mul(SCALE).saturating_mul(weight);
        let sum = scores.entry(Arc::clone(name)).or_default();
        *sum = sum.saturating_add(score);
    }
    Ok(Answer::Scores(Arc::new(scores)))
}

fn decode_victims(sent: &BTreeSet<Victim>, result: PreemptionResult) -> Result<Answer, CallError> {
    let mut permitted = BTreeSet::new();
    for (cluster, victims) in result.cluster_name_to_victims.unwrap_or_default() {
        if !sent.iter().any(|victim| victim.cluster == cluster) {
            return Err(cluster_not_sent(&cluster));
        }
        for binding in victims.bindings.unwrap_or_default() {
            let victim = Victim {
                key: BindingKey::new(&binding.namespace, &binding.name),
                cluster: cluster.clone(),
            };
            if !sent.contains(&victim) {
                return Err(CallError::NotSent {
                    what: "binding",
                    name: shorten(&victim.key.to_string()),
                });
            }
            permitted.insert(victim);
        }
    }
    Ok(Answer::Victims(Arc::new(permitted)))
}

fn cluster_not_sent(name: &str) -> CallError {
    CallError::NotSent {
        what: "cluster",
        name: shorten(name),
    }
}

#[cfg(test)]
mod tests;
