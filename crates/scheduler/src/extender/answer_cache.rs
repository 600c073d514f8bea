//! The responses of HTTP extenders, for the engine, which runs synchronously and cannot wait for a call.
//!
//! A plugin that looks up an answer and finds none gives the engine a provisional value. The decision is then discarded
//! and made again when the answer has arrived.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::answers::{Answer, Answers, CallError, Query, Reason, Rejected, Request};

/// Requests that a decision looked up without finding an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered(pub(super) Vec<Query>);

impl Unanswered {
    /// Returns the number of calls to make.
    pub fn calls(&self) -> usize {
        self.0.len()
    }
}

#[derive(Debug, Default)]
struct Round {
    answers: Answers,
    unanswered: Vec<Query>,
    /// The clusters that each extender rejected in the current cycle.
    rejected: HashMap<usize, Rejected>,
}

/// The result of a lookup.
#[derive(Debug)]
pub(super) enum Lookup {
    Answer(Answer),
    Failed(CallError),
    /// No answer yet; the request is among the unanswered ones.
    Pending,
}

/// The answers of the round in progress, shared by the scheduler and its plugins.
#[derive(Clone, Debug, Default)]
pub(super) struct AnswerCache(Arc<Mutex<Round>>);

impl AnswerCache {
    /// Makes a decision with these answers, and returns the lookups that remain unanswered.
    pub(super) fn decide<T>(
        &self,
        answers: Answers,
        decision: impl FnOnce() -> T,
    ) -> (T, Answers, Option<Unanswered>) {
        self.with(|round| {
            *round = Round {
                answers,
                ..Round::default()
            };
        });
        let decision = decision();
        let Round {
            answers,
            unanswered,
            ..
        } = self.with(std::mem::take);
        let unanswered = (!unanswered.is_empty()).then_some(Unanswered(unanswered));
        (decision, answers, unanswered)
    }

    /// Looks up the answer of an extender. Records the request if there is none.
    pub(super) fn get(&self, extender: usize, request: Request) -> Lookup {
        let query = Query { extender, request };
        self.with(|round| match round.answers.get(&query) {
            Some(Ok(answer)) => Lookup::Answer(answer.clone()),
            Some(Err(error)) => Lookup::Failed(error.clone()),
            None => {
                // The requests that follow an unanswered one may depend on its answer. Only scores of the same clusters
                // are independent of each other.
                let is_independent = match (&query.request, round.unanswered.first()) {
                    (_, None) => true,
                    (Request::Prioritize(_), Some(first)) => first.request == query.request,
                    _ => false,
                };
                if is_independent && !round.unanswered.contains(&query) {
                    round.unanswered.push(query);
                }
                Lookup::Pending
            }
        })
    }

    /// Sets the clusters that an extender rejects in the current cycle.
    pub(super) fn set_rejected(&self, extender: usize, rejected: Option<Rejected>) {
        self.with(|round| match rejected {
            Some(rejected) => round.rejected.insert(extender, rejected),
            None => round.rejected.remove(&extender),
        });
    }

    /// Returns the reason why an extender rejects a cluster, if it does.
    pub(super) fn rejection(&self, extender: usize, cluster: &str) -> Option<Reason> {
        self.with(|round| round.rejected.get(&extender)?.get(cluster).cloned())
    }

    fn with<T>(&self, change: impl FnOnce(&mut Round) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::super::answers::Names;
    use super::*;

    fn names(names: &[&str]) -> Names {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    #[test]
    fn only_scores_of_the_same_clusters_are_requested_together() {
        let cache = AnswerCache::default();
        let ((), answers, unanswered) = cache.decide(Answers::default(), || {
            for (extender, request) in [
                (0, Request::Prioritize(names(&["a", "b"]))),
                (1, Request::Prioritize(names(&["a", "b"]))),
                (2, Request::Prioritize(names(&["a"]))),
                (2, Request::Filter(names(&["a", "b"]))),
            ] {
                assert!(matches!(cache.get(extender, request), Lookup::Pending));
            }
        });
        let unanswered = unanswered.unwrap();
        let extenders: Vec<usize> = unanswered.0.iter().map(|query| query.extender).collect();
        assert_eq!((extenders, answers.calls()), (vec![0, 1], 0));
    }

    #[test]
    fn filters_are_requested_one_after_the_other() {
        let cache = AnswerCache::default();
        let ((), _, unanswered) = cache.decide(Answers::default(), || {
            for extender in [0, 1] {
                let _ = cache.get(extender, Request::Filter(names(&["a"])));
            }
        });
        assert_eq!(unanswered.unwrap().calls(), 1);
    }

    #[test]
    fn answers_match_their_own_request_only() {
        let cache = AnswerCache::default();
        let query = Query {
            extender: 0,
            request: Request::Filter(names(&["a", "b"])),
        };
        let answers = Answers {
            by_query: vec![(query, Ok(Answer::Ignored))],
            ..Answers::default()
        };
        let ((), _, unanswered) = cache.decide(answers, || {
            let found = cache.get(0, Request::Filter(names(&["a", "b"])));
            assert!(matches!(found, Lookup::Answer(Answer::Ignored)));
            let found = cache.get(0, Request::Filter(names(&["b"])));
            assert!(matches!(found, Lookup::Pending));
        });
        assert_eq!(unanswered.unwrap().calls(), 1);
    }
}
