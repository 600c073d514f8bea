//! The entries of the decision log. Each entry is a line of JSON in the format `decisionlog.berth.io/v1`.
//!
//! Later versions of Berth may add fields. Removing a field, or changing its meaning, requires another [`API_VERSION`].

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::binding::{BindingStatus, TargetCluster};
use berth_api::feature_gates::EngineGates;
use berth_api::well_known::{APPLIED_PLACEMENT, REPLICA_LIMITS};
use berth_api::{Binding, ResourceBinding};
use berth_engine::estimate::Unit;
use berth_engine::{
    Assumed, AssumedWorkload, EarlierRequest, Outcome, ResourceRequest, ResourceRequestError,
    ScheduledReason, WorkloadPeers,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::estimator::{Answer, Answers, NoAnswer};

/// The version of the format.
pub const API_VERSION: &str = "decisionlog.berth.io/v1";

/// A line of the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Entry {
    /// The first line of a file.
    Header(Header),
    /// The configuration of the following decisions.
    Configuration(Box<Configuration>),
    /// The complete Cluster object of a cluster that is new in the file.
    Cluster(Value),
    /// Changed fields of a cluster, as a JSON merge patch.
    ClusterPatch(ClusterPatch),
    /// The name of a deleted cluster.
    ClusterDeleted(String),
    /// A new or changed ClusterScore. Only a scheduler with a plugin that reads scores writes these entries.
    ClusterScore(Value),
    /// The name of a deleted ClusterScore.
    ClusterScoreDeleted(String),
    /// A decision.
    Decision(Box<Decision>),
    /// The number of decisions that are missing at this position.
    Gap(Gap),
    /// A decision with all its inputs. `berth replay --extract` writes such a line to a file. The decision log contains
    /// none.
    #[serde(skip)]
    Case(Box<Case>),
}

/// The first line of a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// `decisionlog.berth.io/v1`.
    pub api_version: String,
    /// The version of the scheduler.
    pub version: String,
    /// The time at which the file was created.
    pub time: MicroTime,
}

/// The part of the scheduler's configuration that affects decisions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    /// Profiles and extenders, in the form of the configuration file. Secrets are redacted.
    pub document: Value,
    /// The feature gates of the engine.
    pub feature_gates: EngineGates,
    /// True if selected clusters with 0 replicas are part of the result.
    #[serde(default)]
    pub empty_workload_propagation: bool,
    /// True if the scheduler calls the accurate estimators of the member clusters.
    #[serde(default)]
    pub estimators: bool,
}

/// Changed fields of a cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPatch {
    /// The name of the cluster.
    pub name: String,
    /// The JSON merge patch.
    pub patch: Value,
}

/// A gap in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gap {
    /// The number of missing decisions.
    pub dropped: u64,
}

/// A decision with its inputs. Earlier entries of the file contain the clusters and the configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The time of the decision.
    pub time: MicroTime,
    /// The binding.
    pub binding: RecordedBinding,
    /// Clusters of the other workloads in the affinity groups of the binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peers: Option<Peers>,
    /// Workloads that were placed in a cluster and that the cluster did not report yet, by cluster. A cluster is listed
    /// only if its workloads changed since the preceding decision in the file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub assumed: BTreeMap<String, Vec<Workload>>,
    /// The earlier request with which clusters still report the replicas of the binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Earlier>,
    /// The answers of accurate estimators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimates: Option<Estimates>,
    /// The number of calls to extenders whose responses the decision used.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub extender_calls: usize,
    /// The result.
    pub result: DecisionResult,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature of serde")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A decision with all its inputs. Its format extends the format of the scenarios in the conformance corpus.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Case {
    /// Namespace and name of the binding, and the number of the decision among all decisions of the log about this
    /// binding.
    pub id: String,
    /// The clusters of the fleet.
    pub clusters: Vec<Value>,
    /// The ClusterScores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_scores: Vec<Value>,
    /// True if selected clusters with 0 replicas are part of the result.
    #[serde(rename = "emptyPropagation")]
    pub empty_workload_propagation: bool,
    /// The configuration.
    pub configuration: Configuration,
    /// The binding, the other inputs and the result.
    #[serde(flatten)]
    pub decision: Decision,
}

/// A binding. Its serialized form contains the complete spec. From metadata and status, it contains only the parts that
/// identify the binding or affect decisions.
#[derive(Clone, Debug)]
pub struct RecordedBinding(pub Arc<Binding>);

impl Serialize for RecordedBinding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let binding = &*self.0;
        let metadata = &binding.metadata;
        let mut annotations = metadata.annotations.clone();
        if let Some(annotations) = &mut annotations {
            // This annotation is a copy of the placement. With limits, the decision depends on it.
            let is_limited = annotations.contains_key(REPLICA_LIMITS);
            annotations.retain(|name, _| is_limited || name != APPLIED_PLACEMENT);
        }
        let metadata = ObjectMeta {
            name: metadata.name.clone(),
            namespace: metadata.namespace.clone(),
            uid: metadata.uid.clone(),
            generation: metadata.generation,
            creation_timestamp: metadata.creation_timestamp.clone(),
            labels: metadata.labels.clone(),
            annotations: annotations.filter(|annotations| !annotations.is_empty()),
            ..ObjectMeta::default()
        };
        let status = BindingStatus {
            scheduler_observing_affinity_name: binding
                .status
                .scheduler_observing_affinity_name
                .clone(),
            last_scheduled_time: binding.status.last_scheduled_time.clone(),
            ..BindingStatus::default()
        };
        let mut object = serializer.serialize_struct("binding", 3)?;
        object.serialize_field("metadata", &metadata)?;
        object.serialize_field("spec", &binding.spec)?;
        object.serialize_field("status", &status)?;
        object.end()
    }
}

impl<'de> Deserialize<'de> for RecordedBinding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = ResourceBinding::deserialize(deserializer)?;
        Ok(Self(Arc::new(Binding::from(object))))
    }
}

/// Clusters of the other workloads in the affinity groups of a binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Peers {
    /// The clusters of each other member of the affinity group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affinity: Vec<Vec<String>>,
    /// The clusters of each other member of the anti-affinity group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anti_affinity: Vec<Vec<String>>,
}

impl Peers {
    /// Converts the peers of the engine. Returns `None` if there are no peers.
    pub fn of(peers: WorkloadPeers) -> Option<Self> {
        let WorkloadPeers {
            affinity,
            anti_affinity,
        } = peers;
        (!affinity.is_empty() || !anti_affinity.is_empty()).then_some(Self {
            affinity,
            anti_affinity,
        })
    }
}

impl From<Peers> for WorkloadPeers {
    fn from(peers: Peers) -> Self {
        Self {
            affinity: peers.affinity,
            anti_affinity: peers.anti_affinity,
        }
    }
}

/// An earlier request of the replicas of a binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Earlier {
    /// The resource request of each replica.
    pub request: BTreeMap<String, String>,
    /// The clusters that report this request, and the number of their replicas.
    pub clusters: BTreeMap<String, i32>,
}

impl From<&EarlierRequest> for Earlier {
    fn from(earlier: &EarlierRequest) -> Self {
        Self {
            request: amounts(&earlier.request),
            clusters: earlier.clusters.clone(),
        }
    }
}

impl Earlier {
    /// Converts to the type of the engine.
    ///
    /// # Errors
    /// When a quantity is malformed.
    pub fn parse(&self) -> Result<EarlierRequest, ResourceRequestError> {
        Ok(EarlierRequest {
            request: request_of(&self.request)?,
            clusters: self.clusters.clone(),
        })
    }
}

fn amounts(request: &ResourceRequest) -> BTreeMap<String, String> {
    let amounts = request.amounts().iter();
    amounts
        .map(|it| (it.resource.clone(), it.quantity.to_string()))
        .collect()
}

fn request_of(amounts: &BTreeMap<String, String>) -> Result<ResourceRequest, ResourceRequestError> {
    let list = amounts.iter();
    let list = list.map(|(name, amount)| (name.clone(), amount.as_str().into()));
    ResourceRequest::new(&list.collect())
}

/// A workload: the number of replicas and the resource request of each pod template.
pub type Workload = Vec<(i32, BTreeMap<String, String>)>;

/// Converts assumed workloads from the type of the engine to the format of the log.
pub fn assumed_by_cluster(assumed: &Assumed) -> BTreeMap<String, Vec<Workload>> {
    let workload = |workload: &AssumedWorkload| -> Workload {
        let components = workload.components.iter();
        components
            .map(|(replicas, request)| (*replicas, amounts(request)))
            .collect()
    };
    let clusters = assumed.iter();
    clusters
        .map(|(name, workloads)| (name.to_owned(), workloads.iter().map(workload).collect()))
        .collect()
}

/// Converts assumed workloads from the format of the log to the type of the engine.
///
/// # Errors
/// When a quantity is malformed.
pub fn assumed_of(
    clusters: &BTreeMap<String, Vec<Workload>>,
) -> Result<Assumed, ResourceRequestError> {
    let mut assumed = Assumed::default();
    for (name, workloads) in clusters {
        for workload in workloads {
            let components = workload
                .iter()
                .map(|(replicas, request)| Ok((*replicas, request_of(request)?)));
            let components = components.collect::<Result<_, ResourceRequestError>>()?;
            assumed.add(name, AssumedWorkload { components });
        }
    }
    Ok(assumed)
}

/// The answers of accurate estimators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimates {
    /// True if the estimators counted complete sets of components instead of replicas.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub component_sets: bool,
    /// The number of replicas or sets that fit into each cluster, or null if the estimator gave no answer.
    pub clusters: BTreeMap<String, Option<i32>>,
}

impl Estimates {
    /// Converts the answers of the estimator client. Returns `None` if no estimator was called.
    pub fn of(answers: &Answers) -> Option<Self> {
        let clusters = answers.iter();
        Some(Self {
            component_sets: answers.unit()? == Unit::ComponentSets,
            clusters: clusters
                .map(|(name, answer)| (name.to_owned(), answer.value()))
                .collect(),
        })
    }

    /// Converts the estimates to the type of the estimator client. Each recorded number becomes a fresh answer.
    pub fn answers(&self) -> Answers {
        let mut answers = Answers::new(if self.component_sets {
            Unit::ComponentSets
        } else {
            Unit::Replicas
        });
        for (name, value) in &self.clusters {
            let cluster: Arc<str> = name.as_str().into();
            let answer = match value {
                Some(value) => Answer::Fresh(*value),
                None => Answer::Missing(NoAnswer::NoEstimate {
                    cluster: Arc::clone(&cluster),
                }),
            };
            answers.insert(cluster, answer);
        }
        answers
    }
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FailureKind {
    /// No cluster passes the filters.
    FitError,
    /// A plugin rejected the binding. Another attempt is useful only after a change of a cluster or of the binding.
    Unschedulable,
    /// A plugin failed.
    Error,
}

/// The result of a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionResult {
    /// The selected clusters, sorted by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<TargetCluster>,
    /// The name of the selected affinity term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<String>,
    /// The kind of the failure, if the decision failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureKind>,
    /// The message of the failure, if the decision failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl From<&Outcome> for DecisionResult {
    fn from(outcome: &Outcome) -> Self {
        match &outcome.result {
            Ok(placement) => {
                let mut clusters: Vec<TargetCluster> = placement
                    .targets
                    .iter()
                    .map(crate::rules::plan::target_cluster)
                    .collect();
                clusters.sort_unstable_by(|a, b| a.name.cmp(&b.name));
                Self {
                    clusters,
                    affinity: placement.affinity.as_deref().map(str::to_owned),
                    failure: None,
                    message: None,
                }
            }
            Err(error) => Self {
                failure: Some(match error.reason() {
                    ScheduledReason::NoClusterFit => FailureKind::FitError,
                    ScheduledReason::Unschedulable => FailureKind::Unschedulable,
                    _ => FailureKind::Error,
                }),
                message: Some(error.to_string()),
                ..Self::default()
            },
        }
    }
}

/// Formats the clusters as in `m1:2, m2`, or the failure.
impl std::fmt::Display for DecisionResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(failure) = self.failure {
            let message = self.message.as_deref().unwrap_or_default();
            return write!(f, "{failure:?}: {message}");
        }
        if self.clusters.is_empty() {
            return f.write_str("no cluster");
        }
        for (index, target) in self.clusters.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{}", target.name)?;
            if target.replicas != 0 {
                write!(f, ":{}", target.replicas)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
