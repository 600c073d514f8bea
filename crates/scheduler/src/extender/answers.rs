//! What extenders were asked for one decision, and what they answered.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::config::Verb;
use crate::framework::Victim;

/// Names of clusters, in the order of the fleet.
pub(super) type Names = Arc<[Arc<str>]>;

/// A question, which names all that its answer depends on besides the binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Which of these clusters can take the binding?
    Filter(Names),
    /// Which of these clusters are preferred?
    Prioritize(Names),
    /// Which of these may be preempted?
    Preempt(Arc<BTreeSet<Victim>>),
}

impl Question {
    pub(super) fn verb(&self) -> Verb {
        match self {
            Self::Filter(_) => Verb::Filter,
            Self::Prioritize(_) => Verb::Prioritize,
            Self::Preempt(_) => Verb::Preempt,
        }
    }
}

/// A question to one extender, by its place in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) extender: usize,
    pub(super) question: Question,
}

/// What an extender answered.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// The clusters that do not pass, with the reasons.
    Refused(Refused),
    /// What is added to the scores of clusters, weight included.
    Scores(ScoresByName),
    /// What may be preempted, of what was asked about.
    Victims(Arc<BTreeSet<Victim>>),
    /// None, and the decision is made as if there were no such extender.
    Ignored,
}

/// Why clusters do not pass, by name.
pub(super) type Refused = Arc<HashMap<Arc<str>, Reason>>;

/// What is added to the scores of clusters, by name.
pub(super) type ScoresByName = Arc<HashMap<Arc<str>, i64>>;

/// Why a cluster does not pass, as users read it.
pub(super) type Reason = Cow<'static, str>;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The extender could not be reached, or broke off.
    #[error("{0}")]
    Unreachable(String),
    /// It took too long.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// It answered with another status than 200.
    #[error("the answer is {0}")]
    Status(StatusCode),
    /// It answered what is no answer.
    #[error("malformed answer: {0}")]
    Malformed(String),
    /// It named something that it was not asked about.
    #[error("the answer names {what} {name:?}, which was not sent")]
    NotSent {
        /// A cluster or a binding.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// It says that it failed.
    #[error("{0}")]
    Refused(String),
}

impl CallError {
    /// As metrics count it.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::Timeout(_) => "timeout",
            Self::Status(_) => "status",
            Self::Malformed(_) => "malformed",
            Self::NotSent { .. } => "not_sent",
            Self::Refused(_) => "refused",
        }
    }
}

/// What the extenders have answered for one decision so far.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// Which set of extenders was asked: the answers of an earlier configuration do not count.
    pub(super) of: u64,
    /// How often was asked.
    pub(super) rounds: usize,
    pub(super) given: Vec<(Asked, Result<Answer, CallError>)>,
}

impl Answers {
    pub(super) fn get(&self, asked: &Asked) -> Option<&Result<Answer, CallError>> {
        let mut given = self.given.iter();
        given.find_map(|(known, answer)| (known == asked).then_some(answer))
    }

    /// How many calls were made.
    pub fn calls(&self) -> usize {
        self.given.len()
    }
}
