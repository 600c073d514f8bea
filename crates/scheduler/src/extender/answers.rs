//! Requests to extenders for one decision, and the answers to them.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::config::Verb;
use crate::framework::Victim;

/// Names of clusters, in the order of the fleet.
pub(super) type Names = Arc<[Arc<str>]>;

/// A request about a binding, with everything else that its answer depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Filters these clusters.
    Filter(Names),
    /// Scores these clusters.
    Prioritize(Names),
    /// Narrows these victims.
    Preempt(Arc<BTreeSet<Victim>>),
}

impl Request {
    pub(super) fn verb(&self) -> Verb {
        match self {
            Self::Filter(_) => Verb::Filter,
            Self::Prioritize(_) => Verb::Prioritize,
            Self::Preempt(_) => Verb::Preempt,
        }
    }
}

/// A request to one extender, by its index in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) extender: usize,
    pub(super) request: Request,
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// The clusters that the extender rejects.
    Rejected(Rejected),
    /// The scores to add, weight included.
    Scores(ScoresByName),
    /// The victims that may be preempted.
    Victims(Arc<BTreeSet<Victim>>),
    /// The call failed, and the extender is ignorable.
    Ignored,
}

/// The reasons of rejected clusters, by name.
pub(super) type Rejected = Arc<HashMap<Arc<str>, Reason>>;

/// The scores to add, by cluster name.
pub(super) type ScoresByName = Arc<HashMap<Arc<str>, i64>>;

/// The reason why a cluster is rejected, as users read it.
pub(super) type Reason = Cow<'static, str>;

/// The reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The connection failed.
    #[error("{0}")]
    Unreachable(String),
    /// The call timed out.
    #[error("no response within {0:?}")]
    Timeout(Duration),
    /// The status is not 200.
    #[error("the response status is {0}")]
    Status(StatusCode),
    /// The body is not a valid response.
    #[error("malformed response: {0}")]
    Malformed(String),
    /// The response names something that the request did not.
    #[error("the response names {what} {name:?}, which was not sent")]
    NotSent {
        /// The kind of thing: cluster or binding.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The extender reports an error.
    #[error("{0}")]
    Reported(String),
}

impl CallError {
    /// Returns the value of the metric label `reason`.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::Timeout(_) => "timeout",
            Self::Status(_) => "status",
            Self::Malformed(_) => "malformed",
            Self::NotSent { .. } => "not_sent",
            Self::Reported(_) => "refused",
        }
    }
}

/// The answers of extenders for one decision so far.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// The ID of the extenders that answered. Answers of another configuration are dropped.
    pub(super) extenders: u64,
    /// The rounds of calls so far.
    pub(super) rounds: usize,
    pub(super) by_query: Vec<(Query, Result<Answer, CallError>)>,
}

impl Answers {
    pub(super) fn get(&self, query: &Query) -> Option<&Result<Answer, CallError>> {
        let mut answers = self.by_query.iter();
        answers.find_map(|(answered, answer)| (answered == query).then_some(answer))
    }

    /// Returns the number of calls so far.
    pub fn calls(&self) -> usize {
        self.by_query.len()
    }
}
