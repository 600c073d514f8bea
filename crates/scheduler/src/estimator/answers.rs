//! What estimators answered to one question.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use berth_core::estimate::Unit;
use tonic::Code;

/// Why a cluster gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// There is no connection.
    #[error("cluster {cluster} does not exist in estimator cache{}", because(.reason.as_deref()))]
    NoConnection {
        /// The cluster.
        cluster: Arc<str>,
        /// Why not; None where it is not to be connected to.
        reason: Option<Arc<str>>,
    },
    /// The call failed.
    #[error(
        "gRPC request cluster({cluster}) estimator error when calling {method}: rpc error: code = {code:?} desc = {message}"
    )]
    Call {
        /// The cluster.
        cluster: Arc<str>,
        /// The method called.
        method: &'static str,
        /// What kind of failure; `DeadlineExceeded` where time ran out, `Unimplemented` for old servers.
        code: Code,
        /// What the server says.
        message: String,
    },
    /// The server has no opinion: Karmada writes it as -1.
    #[error("cluster {cluster} has no estimate")]
    NoOpinion {
        /// The cluster.
        cluster: Arc<str>,
    },
}

fn because(reason: Option<&str>) -> String {
    reason
        .map(|reason| format!(" ({reason})"))
        .unwrap_or_default()
}

impl Missing {
    /// The reason as metrics count it.
    pub fn kind(&self) -> MissingKind {
        match self {
            Self::NoConnection { reason: None, .. } => MissingKind::NotFollowed,
            Self::NoConnection { .. } => MissingKind::NoConnection,
            Self::Call {
                code: Code::DeadlineExceeded,
                ..
            } => MissingKind::Timeout,
            Self::Call {
                code: Code::Unimplemented,
                ..
            } => MissingKind::Unimplemented,
            Self::Call { .. } => MissingKind::Failed,
            Self::NoOpinion { .. } => MissingKind::NoOpinion,
        }
    }
}

/// The kinds of reasons for which an answer is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingKind {
    /// The cluster is not to be connected to, or is gone.
    NotFollowed,
    /// There is no connection.
    NoConnection,
    /// The shared deadline passed.
    Timeout,
    /// The server does not know the method.
    Unimplemented,
    /// The call failed.
    Failed,
    /// The server has no opinion.
    NoOpinion,
}

/// What one cluster answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// So many fit.
    Fresh(i32),
    /// So many did fit a while ago; the present answer is missing.
    Stale {
        /// So many did fit.
        value: i32,
        /// How long ago.
        age: Duration,
        /// Why there is no fresh answer.
        reason: Missing,
    },
    /// It has no opinion, for this reason.
    Missing(Missing),
}

impl Answer {
    /// How many fit, where that is known.
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

/// What the clusters answered to one question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    unit: Option<Unit>,
    clusters: BTreeMap<Arc<str>, Answer>,
}

impl Answers {
    /// No answers yet, to a question of this unit.
    pub fn new(unit: Unit) -> Self {
        Self {
            unit: Some(unit),
            clusters: BTreeMap::new(),
        }
    }

    /// What was counted; None where nothing was asked.
    pub fn unit(&self) -> Option<Unit> {
        self.unit
    }

    /// What a cluster answered; None where it was not asked.
    pub fn get(&self, cluster: &str) -> Option<&Answer> {
        self.clusters.get(cluster)
    }

    /// All answers, by cluster.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Answer)> {
        self.clusters
            .iter()
            .map(|(cluster, answer)| (&**cluster, answer))
    }

    /// Adds the answer of a cluster.
    pub fn insert(&mut self, cluster: Arc<str>, answer: Answer) {
        self.clusters.insert(cluster, answer);
    }

    /// Adds the answers of more clusters. Answers in another unit replace all.
    #[must_use]
    pub fn with(mut self, more: Self) -> Self {
        if self.unit != more.unit {
            return more;
        }
        self.clusters.extend(more.clusters);
        self
    }

    /// The clusters whose answers are not fresh, in one line; None where all are.
    pub fn trouble(&self) -> Option<String> {
        let lines: Vec<_> = self
            .iter()
            .filter(|(_, answer)| !matches!(answer, Answer::Fresh(_)))
            .map(|(cluster, answer)| format!("{cluster}: {answer}"))
            .collect();
        (!lines.is_empty()).then(|| lines.join("; "))
    }
}
