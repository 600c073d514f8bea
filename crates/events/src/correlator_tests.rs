//! The correlator as a whole.

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::Timestamp;

use super::*;
use crate::examples::told;
use crate::similar::AS_THEY_ARE;
use crate::source::Source;

/// A correlator with a clock and its writes. The server responds immediately, or on request.
struct Scene {
    correlator: Correlator,
    start: Instant,
    now: Instant,
    told: i128,
    writes: Vec<(Instant, Draft)>,
    is_slow: bool,
    unanswered: Vec<SeriesKey>,
}

impl Scene {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            correlator: Correlator::default(),
            start: now,
            now,
            told: 0,
            writes: Vec::new(),
            is_slow: false,
            unanswered: Vec::new(),
        }
    }

    /// Advances the clock; writes start when they are due.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.correlator.next_due().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            let draft = self.correlator.take_next(self.now);
            self.write(draft);
        }
        self.now = end;
    }

    /// Records an event, a nanosecond after the previous one.
    fn tell(&mut self, told: Told) {
        let elapsed = i128::try_from((self.now - self.start).as_nanos()).unwrap();
        let at = Timestamp::from_nanosecond(elapsed + self.told).unwrap();
        self.told += 1;
        let draft = self.correlator.happens(told.at(at), self.now);
        self.write(draft);
    }

    fn write(&mut self, draft: Option<Draft>) {
        if let Some(draft) = draft {
            self.unanswered.push(draft.key.clone());
            self.writes.push((self.now, draft));
            if !self.is_slow {
                self.answer();
            }
        }
    }

    /// Completes all writes.
    fn answer(&mut self) {
        for key in std::mem::take(&mut self.unanswered) {
            self.correlator.settle(key, self.now);
        }
    }

    /// Returns the events on the server by name.
    fn events(&self) -> BTreeMap<&str, &Draft> {
        let writes = self.writes.iter();
        writes
            .map(|(_, draft)| (draft.name.as_str(), draft))
            .collect()
    }

    /// Returns messages and counts of the events, in order.
    fn told(&self) -> Vec<(&str, i32)> {
        let mut told: Vec<_> = self
            .events()
            .into_values()
            .map(|draft| (draft.latest.happening.message.as_str(), draft.count))
            .collect();
        told.sort_unstable();
        told
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn the_same_words_are_one_event_with_a_count() {
    let mut scene = Scene::new();
    for _ in 0..5 {
        scene.tell(told("BackOff", "a"));
        scene.pass(SECOND * 10);
    }
    assert_eq!(scene.told(), [("a", 5)]);
    // The event keeps its name and first timestamp, and gets the latest timestamp.
    let events = scene.events();
    let (name, event) = events.first_key_value().unwrap();
    assert_eq!(*name, "web.0");
    assert_eq!(event.first.as_second(), 0);
    assert_eq!(event.latest.at.as_second(), 40);
}

#[test]
fn what_comes_within_a_second_is_one_write() {
    let mut scene = Scene::new();
    for _ in 0..1000 {
        scene.tell(told("BackOff", "a"));
    }
    scene.pass(SECOND);
    assert_eq!(scene.writes.len(), 2);
    assert_eq!(scene.told(), [("a", 1000)]);
}

#[test]
fn other_words_on_a_topic_become_one_event_that_has_the_latest() {
    let mut scene = Scene::new();
    for n in 1..=12 {
        scene.pass(SECOND * 2);
        scene.tell(told("BackOff", &format!("{n:02}")));
    }
    scene.pass(SECOND);
    let (combined, others) = scene
        .told()
        .split_first()
        .map(|(c, o)| (*c, o.to_vec()))
        .unwrap();
    assert_eq!(combined, ("(combined from similar events): 12", 3));
    assert_eq!(others.len(), AS_THEY_ARE);
    assert!(others.iter().all(|(_, count)| *count == 1));
}

#[test]
fn parts_of_an_object_have_events_of_their_own_and_are_combined_together() {
    let mut scene = Scene::new();
    for container in ["one", "two"] {
        scene.pass(SECOND);
        scene.tell(told("BackOff", "a").in_container(container));
    }
    assert_eq!(scene.told(), [("a", 1), ("a", 1)]);
    for n in 0..20 {
        scene.pass(SECOND * 2);
        let container = format!("c{}", n % 2);
        scene.tell(told("BackOff", &n.to_string()).in_container(&container));
    }
    scene.pass(SECOND);
    let combined = scene
        .told()
        .into_iter()
        .filter(|(m, _)| m.starts_with(COMBINED));
    assert_eq!(combined.count(), 1);
}

#[test]
fn severity_reason_object_source_and_host_make_events_of_their_own() {
    let mut scene = Scene::new();
    let kubelet = Source::new("kubelet");
    let all = [
        told("BackOff", "a"),
        told("Killing", "a"),
        told("BackOff", "a").bad(),
        told("BackOff", "a").of("db"),
        told("BackOff", "a").by(Source::new("scheduler")),
        told("BackOff", "a").by(kubelet.on("n1")),
        told("BackOff", "a").by(kubelet.on("n2")),
    ];
    for told in all {
        scene.pass(SECOND);
        scene.tell(told);
    }
    assert_eq!(scene.told(), [("a", 1); 7]);
}

#[test]
fn what_is_not_written_is_counted_with_what_is() {
    let mut scene = Scene::new();
    for _ in 0..100 {
        scene.tell(told("BackOff", "a"));
        scene.pass(SECOND * 2);
    }
    assert_eq!(scene.told(), [("a", 25)]);
    scene.pass(Duration::from_mins(5));
    assert_eq!(scene.told(), [("a", 25)], "nothing happens meanwhile");
    scene.tell(told("BackOff", "a"));
    scene.pass(SECOND);
    assert_eq!(scene.told(), [("a", 101)]);
}

#[test]
fn a_first_happening_that_is_not_written_counts_as_well() {
    let mut scene = Scene::new();
    for _ in 0..25 {
        scene.tell(told("BackOff", "a"));
        scene.pass(SECOND * 2);
    }
    scene.tell(told("Killing", "b"));
    let began = scene.now - scene.start;
    assert_eq!(scene.told(), [("a", 25)]);
    scene.pass(Duration::from_mins(10));
    scene.tell(told("Killing", "b"));
    scene.pass(SECOND);
    assert_eq!(scene.told(), [("a", 25), ("b", 2)]);
    let (_, draft) = scene.writes.last().unwrap();
    assert_eq!(
        draft.first.as_second(),
        i64::try_from(began.as_secs()).unwrap()
    );
}

#[test]
fn a_day_of_failures_with_changing_words_is_ten_events_and_few_writes() {
    let mut scene = Scene::new();
    for n in 0..24 * 360 {
        scene.tell(told("BackOff", &format!("try {n} failed")).bad());
        scene.pass(SECOND * 10);
    }
    assert_eq!(scene.events().len(), AS_THEY_ARE + 1);
    let affordable = 25 + 24 * 12;
    assert!(scene.writes.len() <= affordable, "{}", scene.writes.len());
    // The last write is at most five minutes late.
    let (_, last) = scene.writes.last().unwrap();
    let late = i32::try_from(24 * 360 - AS_THEY_ARE).unwrap() - last.count;
    assert!((0..=31).contains(&late), "{late}");
}

#[test]
fn where_too_many_wait_they_do_not_wait_for_their_time() {
    let mut scene = Scene::new();
    // Every second event of a series is pending.
    for n in 0..=REMEMBERED.get() {
        assert!(
            scene
                .correlator
                .next_due()
                .is_none_or(|due| due > scene.now)
        );
        for _ in 0..2 {
            scene.tell(told("BackOff", "a").of(&n.to_string()));
        }
    }
    assert!(
        scene
            .correlator
            .next_due()
            .is_some_and(|due| due <= scene.now)
    );
}

mod promises {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::budget::{BURST, REFILL};
    use crate::similar::SILENCE;

    /// An event from a small space, the pause after it, and whether the server then responds.
    #[derive(Clone, Debug)]
    struct Step {
        told: Told,
        pause: Duration,
        answers: bool,
    }

    fn step(messages: usize, longest: Duration) -> impl Strategy<Value = Step> {
        let pause = prop_oneof![
            3 => Just(0),
            3 => 0..3000_u64,
            1 => 0..=u64::try_from(longest.as_millis()).unwrap(),
        ];
        let reasons = prop::sample::select(vec!["BackOff", "Killing"]);
        let message = prop_oneof![0..messages, Just(0)];
        (
            0..2_u8,
            any::<bool>(),
            reasons,
            message,
            pause,
            any::<bool>(),
        )
            .prop_map(|(object, is_bad, reason, message, pause, answers)| {
                let told = told(reason, &message.to_string()).of(&object.to_string());
                Step {
                    told: if is_bad { told.bad() } else { told },
                    pause: Duration::from_millis(pause),
                    answers,
                }
            })
    }

    /// Plays all steps and completes all writes.
    fn play(steps: &[Step]) -> Scene {
        let mut scene = Scene::new();
        scene.is_slow = true;
        for step in steps {
            scene.tell(step.told.clone());
            scene.pass(step.pause);
            if step.answers {
                scene.answer();
            }
        }
        // Pending series, and those that their completion makes pending.
        for _ in 0..2 {
            scene.pass(COUNTING);
            scene.answer();
        }
        scene.pass(COUNTING);
        scene
    }

    /// Groups events by topic.
    fn topics<'a>(all: impl Iterator<Item = &'a Told>) -> HashMap<Topic, Vec<&'a Told>> {
        let mut topics: HashMap<Topic, Vec<&Told>> = HashMap::new();
        for told in all {
            topics.entry(Topic::of(told)).or_default().push(told);
        }
        topics
    }

    fn total(scene: &Scene) -> usize {
        let counts = scene.told().into_iter().map(|(_, count)| count);
        usize::try_from(counts.sum::<i32>()).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn in_no_time_more_is_written_of_a_subject_than_its_budget(
            steps in vec(step(30, SILENCE), 0..300),
        ) {
            let scene = play(&steps);
            let mut times: HashMap<_, Vec<Instant>> = HashMap::new();
            for (at, draft) in &scene.writes {
                times.entry(draft.key.subject()).or_default().push(*at);
            }
            for times in times.values() {
                for (first, from) in times.iter().enumerate() {
                    for (last, to) in times.iter().enumerate().skip(first) {
                        let written = last - first + 1;
                        let refilled = (*to - *from).as_secs() / REFILL.as_secs();
                        let most = u64::from(BURST) + refilled;
                        prop_assert!(written as u64 <= most, "{written} in {:?}", *to - *from);
                    }
                }
            }
        }

        #[test]
        fn nothing_that_is_affordable_is_lost(
            steps in vec(step(30, SILENCE), 0..=25),
        ) {
            prop_assert_eq!(total(&play(&steps)), steps.len());
        }

        #[test]
        fn nothing_is_counted_twice(steps in vec(step(30, SILENCE), 0..300)) {
            let scene = play(&steps);
            prop_assert!(total(&scene) <= steps.len());
            let mut known: HashMap<&str, (i32, Timestamp)> = HashMap::new();
            for (_, draft) in &scene.writes {
                if let Some((count, first)) = known.insert(&draft.name, (draft.count, draft.first)) {
                    prop_assert!(count < draft.count);
                    prop_assert_eq!(first, draft.first);
                }
            }
        }

        #[test]
        fn a_topic_that_is_never_silent_has_ten_events_at_most(
            steps in vec(step(30, Duration::from_secs(1)), 0..300),
        ) {
            let scene = play(&steps);
            let events = topics(scene.events().into_values().map(|draft| &draft.latest));
            for events in events.values() {
                prop_assert!(events.len() <= AS_THEY_ARE + 1);
            }
        }

        #[test]
        fn few_words_are_never_combined(steps in vec(step(AS_THEY_ARE, SILENCE), 0..300)) {
            let scene = play(&steps);
            let told: HashSet<&str> = scene.told().into_iter().map(|(message, _)| message).collect();
            prop_assert!(told.iter().all(|message| !message.starts_with(COMBINED)));
            let events = topics(scene.events().into_values().map(|draft| &draft.latest));
            for events in events.values() {
                let words: HashSet<_> = events.iter().map(|told| &told.happening.message).collect();
                prop_assert_eq!(words.len(), events.len());
            }
        }
    }
}
