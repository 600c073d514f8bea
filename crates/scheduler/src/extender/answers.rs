//! The types of the requests to extenders for one decision, and of their decoded answers.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::config::Verb;
use crate::framework::Victim;

/// Names of the clusters in a request.
pub(super) type Names = Arc<[Arc<str>]>;

/// A request about the binding of the decision. Within a decision, an extender answers equal requests only once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// A filter request for these clusters.
    Filter(Names),
    /// A prioritize request for these clusters.
    Prioritize(Names),
    /// A preempt request for these victims.
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

    /// Returns the number of clusters or victims in the request.
    pub(super) fn names(&self) -> usize {
        match self {
            Self::Filter(names) | Self::Prioritize(names) => names.len(),
            Self::Preempt(victims) => victims.len(),
        }
    }
}

/// A request to one extender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    /// The index of the extender in the configuration.
    pub(super) extender: usize,
    pub(super) request: Request,
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// The clusters that the extender rejects.
    Rejected(Rejected),
    /// The scores to add, multiplied by the weight of the extender.
    Scores(ScoresByName),
    /// The victims whose eviction the extender permits.
    Victims(Arc<BTreeSet<Victim>>),
    /// The call failed, and the extender is ignorable.
    Ignored,
}

/// The reasons for rejections, by cluster name.
pub(super) type Rejected = Arc<HashMap<Arc<str>, Reason>>;

/// The scores to add, by cluster name.
pub(super) type ScoresByName = Arc<HashMap<Arc<str>, i64>>;

/// The reason for the rejection of a cluster. Users read this text in the condition of the binding.
pub(super) type Reason = Cow<'static, str>;

/// The error of a failed call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
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
    /// The response is larger than this number of bytes.
    #[error("the response is larger than {0} bytes, the limit for a request of this size")]
    TooLarge(usize),
    /// The response names a cluster or binding that the request does not contain.
    #[error("the response names {what} {name:?}, which was not sent")]
    NotSent {
        /// The text `cluster` or `binding`.
        what: &'static str,
        /// The name of the cluster or binding.
        name: String,
    },
    /// The response contains an error message of the extender.
    #[error("{0}")]
    Refused(String),
}

/// Maximum length of a text of an extender in messages, in bytes.
const MAX_TEXT: usize = 1024;

/// Returns the beginning of a text of an extender. Conditions and events contain such texts.
pub(super) fn shorten(text: &str) -> String {
    if text.len() <= MAX_TEXT {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(MAX_TEXT)])
}

impl CallError {
    /// Returns the value of the metric label `reason`.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::Timeout(_) => "timeout",
            Self::Status(_) => "status",
            Self::Malformed(_) | Self::TooLarge(_) => "malformed",
            Self::NotSent { .. } => "not_sent",
            Self::Refused(_) => "refused",
        }
    }
}

/// The answers that extenders have given for one decision so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    /// The ID of the [`Extenders`](super::Extenders) that answered. A changed configuration creates extenders with
    /// another ID, which discard these answers.
    pub(super) extenders: u64,
    /// The number of rounds of calls so far. In a round, extenders are called concurrently.
    pub(super) rounds: usize,
    pub(super) by_query: Vec<(Query, Result<Answer, CallError>)>,
}

impl Answers {
    pub(super) fn get(&self, query: &Query) -> Option<&Result<Answer, CallError>> {
        let mut answers = self.by_query.iter();
        answers.find_map(|(answered, answer)| (answered == query).then_some(answer))
    }

    /// Returns the number of calls so far.
    pub(crate) fn calls(&self) -> usize {
        self.by_query.len()
    }
}
