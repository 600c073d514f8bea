//! The answers of the estimators of several clusters to one request.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use berth_engine::estimate::Unit;
use tonic::Code;

/// The reason why a cluster has no fresh answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// There is no connection.
    #[error("cluster {cluster} does not exist in estimator cache{}", because(.reason.as_deref()))]
    NoConnection {
        /// The cluster.
        cluster: Arc<str>,
        /// The reason why there is no connection, or `None` if the cluster is unknown or skipped.
        reason: Option<Arc<str>>,
    },
    /// The call failed.
    #[error(
        "gRPC request cluster({cluster}) estimator error when calling {method}: rpc error: code = {code:?} desc = {message}"
    )]
    Call {
        /// The cluster.
        cluster: Arc<str>,
        /// The name of the called method.
        method: &'static str,
        /// The status code. A server without the method returns `Unimplemented`.
        code: Code,
        /// The status message.
        message: String,
    },
    /// The server has no estimate. In this case, Karmada's servers return -1.
    #[error("cluster {cluster} has no estimate")]
    NoEstimate {
        /// The cluster.
        cluster: Arc<str>,
    },
}

fn because(reason: Option<&str>) -> String {
    reason
        .map(|reason| format!(" ({reason})"))
        .unwrap_or_default()
}

impl NoAnswer {
    /// Returns the kind of the reason. The metrics count reasons by kind.
    pub fn kind(&self) -> NoAnswerKind {
        match self {
            Self::NoConnection { reason: None, .. } => NoAnswerKind::UnknownCluster,
            Self::NoConnection { .. } => NoAnswerKind::NoConnection,
            Self::Call {
                code: Code::DeadlineExceeded,
                ..
            } => NoAnswerKind::Timeout,
            Self::Call {
                code: Code::Unimplemented,
                ..
            } => NoAnswerKind::Unimplemented,
            Self::Call { .. } => NoAnswerKind::Failed,
            Self::NoEstimate { .. } => NoAnswerKind::NoEstimate,
        }
    }
}

/// The kinds of [`NoAnswer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswerKind {
    /// The cluster is unknown or skipped.
    UnknownCluster,
    /// There is no connection.
    NoConnection,
    /// The deadline of the calls passed.
    Timeout,
    /// The server does not implement the method.
    Unimplemented,
    /// The call failed.
    Failed,
    /// The server has no estimate.
    NoEstimate,
}

/// The answer of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A current answer: the number of replicas or component sets that fit.
    Fresh(i32),
    /// An earlier answer, which is used because there is no current answer.
    Stale {
        /// The number of replicas or component sets in the earlier answer.
        value: i32,
        /// The age of the earlier answer.
        age: Duration,
        /// The reason why there is no current answer.
        reason: NoAnswer,
    },
    /// No answer, with the reason.
    Missing(NoAnswer),
}

impl Answer {
    /// Returns the number of replicas or component sets that fit, if known.
    pub fn value(&self) -> Option<i32> {
        match self {
            Self::Fresh(value) | Self::Stale { value, .. } => Some(*value),
            Self::Missing(_) => None,
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fresh(value) => write!(f, "{value} (fresh)"),
            Self::Stale { value, age, reason } => {
                write!(f, "{value} (stale, {} s old: {reason})", age.as_secs())
            }
            Self::Missing(reason) => write!(f, "missing: {reason}"),
        }
    }
}

/// The answers of clusters to one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    unit: Option<Unit>,
    clusters: BTreeMap<Arc<str>, Answer>,
}

impl Answers {
    /// Returns an empty set of answers in this unit.
    pub fn new(unit: Unit) -> Self {
        Self {
            unit: Some(unit),
            clusters: BTreeMap::new(),
        }
    }

    /// Returns the unit of the answers, or `None` if no request was sent.
    pub fn unit(&self) -> Option<Unit> {
        self.unit
    }

    /// Returns the answer for a cluster, or `None` if the estimator of the cluster was not called.
    pub fn get(&self, cluster: &str) -> Option<&Answer> {
        self.clusters.get(cluster)
    }

    /// Iterates over the answers in the order of cluster names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Answer)> {
        self.clusters
            .iter()
            .map(|(cluster, answer)| (&**cluster, answer))
    }

    /// Sets the answer of a cluster.
    pub fn insert(&mut self, cluster: Arc<str>, answer: Answer) {
        self.clusters.insert(cluster, answer);
    }

    /// Adds more answers. If `more` has another unit, it replaces all answers.
    #[must_use]
    pub fn merge(mut self, more: Self) -> Self {
        if self.unit != more.unit {
            return more;
        }
        self.clusters.extend(more.clusters);
        self
    }

    /// Lists the clusters without a current answer in one line. Returns `None` if all answers are current.
    pub fn failures(&self) -> Option<String> {
        let lines: Vec<_> = self
            .iter()
            .filter(|(_, answer)| !matches!(answer, Answer::Fresh(_)))
            .map(|(cluster, answer)| format!("{cluster}: {answer}"))
            .collect();
        (!lines.is_empty()).then(|| lines.join("; "))
    }
}
