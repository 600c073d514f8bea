//! The cache in which plugins find the answers of HTTP extenders. The engine is synchronous, so a plugin cannot wait
//! for a call.
//!
//! If the cache has no answer to a request, it records the request, and the plugin returns a provisional value to the
//! engine. The scheduler then discards the decision, sends the request, and decides again with the answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::answers::{Answer, Answers, CallError, Query, Reason, Rejected, Request};

/// Requests of a decision that have no answer yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered(pub(super) Vec<Query>);

/// One run of the engine for a decision.
#[derive(Debug, Default)]
struct EngineRun {
    answers: Answers,
    unanswered: Vec<Query>,
    /// The clusters that each extender rejected in the current scheduling cycle, by the index of the extender.
    rejected: HashMap<usize, Rejected>,
}

/// The result of [`AnswerCache::get`].
#[derive(Debug)]
pub(super) enum Lookup {
    Answer(Answer),
    Failed(CallError),
    /// The answer is missing. The decision is provisional.
    Pending,
}

/// The answers for the current run of the engine. Clones share the answers.
#[derive(Clone, Debug, Default)]
pub(super) struct AnswerCache(Arc<Mutex<EngineRun>>);

impl AnswerCache {
    /// Runs `decision` with these answers. Returns the result, the answers, and the requests that have no answer.
    pub(super) fn decide<T>(
        &self,
        answers: Answers,
        decision: impl FnOnce() -> T,
    ) -> (T, Answers, Option<Unanswered>) {
        self.with(|run| {
            *run = EngineRun {
                answers,
                ..EngineRun::default()
            };
        });
        let decision = decision();
        let EngineRun {
            answers,
            unanswered,
            ..
        } = self.with(std::mem::take);
        let unanswered = (!unanswered.is_empty()).then_some(Unanswered(unanswered));
        (decision, answers, unanswered)
    }

    /// Returns the answer of an extender to a request. If the answer is missing, records the request, unless the
    /// request may depend on the answer to a recorded request.
    pub(super) fn get(&self, extender: usize, request: Request) -> Lookup {
        let query = Query { extender, request };
        self.with(|run| match run.answers.get(&query) {
            Some(Ok(answer)) => Lookup::Answer(answer.clone()),
            Some(Err(error)) => Lookup::Failed(error.clone()),
            None => {
                // A request may depend on the missing answer to an earlier request. Only prioritize requests for the
                // same clusters are independent of each other.
                let is_independent = match (&query.request, run.unanswered.first()) {
                    (_, None) => true,
                    (Request::Prioritize(_), Some(first)) => first.request == query.request,
                    _ => false,
                };
                if is_independent && !run.unanswered.contains(&query) {
                    run.unanswered.push(query);
                }
                Lookup::Pending
            }
        })
    }

    /// Sets the clusters that an extender rejects in the current cycle.
    pub(super) fn set_rejected(&self, extender: usize, rejected: Option<Rejected>) {
        self.with(|run| match rejected {
            Some(rejected) => run.rejected.insert(extender, rejected),
            None => run.rejected.remove(&extender),
        });
    }

    /// Returns the reason why an extender rejects a cluster, or `None` if the extender does not reject the cluster.
    pub(super) fn rejection(&self, extender: usize, cluster: &str) -> Option<Reason> {
        self.with(|run| run.rejected.get(&extender)?.get(cluster).cloned())
    }

    fn with<T>(&self, change: impl FnOnce(&mut EngineRun) -> T) -> T {
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
        assert_eq!(unanswered.unwrap().0.len(), 1);
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
        assert_eq!(unanswered.unwrap().0.len(), 1);
    }
}
