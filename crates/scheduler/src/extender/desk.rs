//! Between answers that take time and an engine that does not wait.
//!
//! The plugins find the answers that there are on the desk, and leave the questions that have none. Who left
//! a question gives the engine something provisional: the decision is thrown away, and made again when the
//! answer is there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::answers::{Answer, Answers, Asked, CallError, Question, Reason, Refused};

/// What a decision wanted to know and nobody was asked yet. While there is something, it is provisional.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted(pub(super) Vec<Asked>);

impl Wanted {
    /// How many calls it takes to find out.
    pub fn calls(&self) -> usize {
        self.0.len()
    }
}

#[derive(Debug, Default)]
struct Sheet {
    answers: Answers,
    wanted: Vec<Asked>,
    /// By extender, whom it refused in the cycle at hand.
    refused: HashMap<usize, Refused>,
}

/// What lies on the desk for a question.
#[derive(Debug)]
pub(super) enum Found {
    Answer(Answer),
    Failed(CallError),
    /// Nothing; it is asked for.
    Pending,
}

/// Where answers lie and questions are left.
#[derive(Clone, Debug, Default)]
pub(super) struct Desk(Arc<Mutex<Sheet>>);

impl Desk {
    /// Makes a decision with these answers. What it wanted to know besides comes with it.
    pub(super) fn decide<T>(
        &self,
        answers: Answers,
        decision: impl FnOnce() -> T,
    ) -> (T, Answers, Option<Wanted>) {
        self.with(|sheet| {
            *sheet = Sheet {
                answers,
                ..Sheet::default()
            };
        });
        let decision = decision();
        let Sheet {
            answers, wanted, ..
        } = self.with(std::mem::take);
        let wanted = (!wanted.is_empty()).then_some(Wanted(wanted));
        (decision, answers, wanted)
    }

    /// Looks for an answer.
    pub(super) fn look(&self, extender: usize, question: Question) -> Found {
        let asked = Asked { extender, question };
        self.with(|sheet| match sheet.answers.get(&asked) {
            Some(Ok(answer)) => Found::Answer(answer.clone()),
            Some(Err(error)) => Found::Failed(error.clone()),
            None => {
                // What comes after an open question may turn out to be another question. Only the scores
                // for the same clusters do not depend on each other.
                let may_ask = match (&asked.question, sheet.wanted.first()) {
                    (_, None) => true,
                    (Question::Prioritize(_), Some(first)) => first.question == asked.question,
                    _ => false,
                };
                if may_ask && !sheet.wanted.contains(&asked) {
                    sheet.wanted.push(asked);
                }
                Found::Pending
            }
        })
    }

    /// Remembers whom an extender refuses in the cycle at hand.
    pub(super) fn refuses(&self, extender: usize, refused: Option<Refused>) {
        self.with(|sheet| match refused {
            Some(refused) => sheet.refused.insert(extender, refused),
            None => sheet.refused.remove(&extender),
        });
    }

    /// Why an extender refuses a cluster, if it does.
    pub(super) fn reason(&self, extender: usize, cluster: &str) -> Option<Reason> {
        self.with(|sheet| sheet.refused.get(&extender)?.get(cluster).cloned())
    }

    fn with<T>(&self, change: impl FnOnce(&mut Sheet) -> T) -> T {
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
    fn scores_for_the_same_clusters_are_asked_for_together_and_nothing_else() {
        let desk = Desk::default();
        let ((), answers, wanted) = desk.decide(Answers::default(), || {
            for (extender, question) in [
                (0, Question::Prioritize(names(&["a", "b"]))),
                (1, Question::Prioritize(names(&["a", "b"]))),
                (2, Question::Prioritize(names(&["a"]))),
                (2, Question::Filter(names(&["a", "b"]))),
            ] {
                assert!(matches!(desk.look(extender, question), Found::Pending));
            }
        });
        let wanted = wanted.unwrap();
        let of: Vec<usize> = wanted.0.iter().map(|asked| asked.extender).collect();
        assert_eq!((of, answers.calls()), (vec![0, 1], 0));
    }

    #[test]
    fn the_filters_of_a_chain_are_asked_one_after_the_other() {
        let desk = Desk::default();
        let ((), _, wanted) = desk.decide(Answers::default(), || {
            for extender in [0, 1] {
                let _ = desk.look(extender, Question::Filter(names(&["a"])));
            }
        });
        assert_eq!(wanted.unwrap().calls(), 1);
    }

    #[test]
    fn an_answer_counts_for_its_own_question_only() {
        let desk = Desk::default();
        let asked = Asked {
            extender: 0,
            question: Question::Filter(names(&["a", "b"])),
        };
        let answers = Answers {
            given: vec![(asked, Ok(Answer::Ignored))],
            ..Answers::default()
        };
        let ((), _, wanted) = desk.decide(answers, || {
            let found = desk.look(0, Question::Filter(names(&["a", "b"])));
            assert!(matches!(found, Found::Answer(Answer::Ignored)));
            let found = desk.look(0, Question::Filter(names(&["b"])));
            assert!(matches!(found, Found::Pending));
        });
        assert_eq!(wanted.unwrap().calls(), 1);
    }
}
