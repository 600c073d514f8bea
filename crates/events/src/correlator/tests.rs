//! Tests of the correlator with all its rules.

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::Timestamp;

use super::*;
use crate::aggregator::MAX_SEPARATE;
use crate::event::Source;
use crate::fixtures::occurrence;

/// A correlator with a clock and the writes so far. Each write is completed at once, or by [`Fixture::complete_writes`]
/// if `is_slow` is set.
struct Fixture {
    correlator: Correlator,
    start: Instant,
    now: Instant,
    recorded: i128,
    writes: Vec<(Instant, Draft)>,
    is_slow: bool,
    running: Vec<SeriesKey>,
}

impl Fixture {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            correlator: Correlator::default(),
            start: now,
            now,
            recorded: 0,
            writes: Vec::new(),
            is_slow: false,
            running: Vec::new(),
        }
    }

    /// Advances the clock, and starts the writes that become due.
    fn advance(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.correlator.next_due().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            let draft = self.correlator.take_next(self.now);
            self.write(draft);
        }
        self.now = end;
    }

    /// Records an event. Every event has a different timestamp, even if the clock has not advanced.
    fn record(&mut self, occurrence: Occurrence) {
        let elapsed = i128::try_from((self.now - self.start).as_nanos()).unwrap();
        let at = Timestamp::from_nanosecond(elapsed + self.recorded).unwrap();
        self.recorded += 1;
        let draft = self.correlator.add(occurrence.at(at), self.now);
        self.write(draft);
    }

    fn write(&mut self, draft: Option<Draft>) {
        if let Some(draft) = draft {
            self.running.push(draft.key.clone());
            self.writes.push((self.now, draft));
            if !self.is_slow {
                self.complete_writes();
            }
        }
    }

    /// Completes all running writes.
    fn complete_writes(&mut self) {
        for key in std::mem::take(&mut self.running) {
            self.correlator.complete(key, self.now);
        }
    }

    /// Returns the events on the server, by name.
    fn events(&self) -> BTreeMap<&str, &Draft> {
        let writes = self.writes.iter();
        writes
            .map(|(_, draft)| (draft.name.as_str(), draft))
            .collect()
    }

    /// Returns the messages and counts of the events, sorted.
    fn messages(&self) -> Vec<(&str, i32)> {
        let mut messages: Vec<_> = self
            .events()
            .into_values()
            .map(|draft| (draft.latest.event.message.as_str(), draft.count))
            .collect();
        messages.sort_unstable();
        messages
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn equal_events_are_counted() {
    let mut fixture = Fixture::new();
    for _ in 0..5 {
        fixture.record(occurrence("BackOff", "a"));
        fixture.advance(SECOND * 10);
    }
    assert_eq!(fixture.messages(), [("a", 5)]);
    // The event keeps its name and first timestamp, and gets the latest timestamp.
    let events = fixture.events();
    let (name, event) = events.first_key_value().unwrap();
    assert_eq!(*name, "web.0");
    assert_eq!(event.first.as_second(), 0);
    assert_eq!(event.latest.at.as_second(), 40);
}

#[test]
fn repetitions_within_a_second_need_one_further_write() {
    let mut fixture = Fixture::new();
    for _ in 0..1000 {
        fixture.record(occurrence("BackOff", "a"));
    }
    fixture.advance(SECOND);
    assert_eq!(fixture.writes.len(), 2);
    assert_eq!(fixture.messages(), [("a", 1000)]);
}

#[test]
fn messages_after_the_ninth_are_combined_into_one_event() {
    let mut fixture = Fixture::new();
    for n in 1..=12 {
        fixture.advance(SECOND * 2);
        fixture.record(occurrence("BackOff", &format!("{n:02}")));
    }
    fixture.advance(SECOND);
    let (combined, others) = fixture
        .messages()
        .split_first()
        .map(|(c, o)| (*c, o.to_vec()))
        .unwrap();
    assert_eq!(combined, ("(combined from similar events): 12", 3));
    assert_eq!(others.len(), MAX_SEPARATE);
    assert!(others.iter().all(|(_, count)| *count == 1));
}

#[test]
fn field_paths_separate_events_but_share_the_combined_event() {
    let mut fixture = Fixture::new();
    for container in ["one", "two"] {
        fixture.advance(SECOND);
        fixture.record(occurrence("BackOff", "a").in_container(container));
    }
    assert_eq!(fixture.messages(), [("a", 1), ("a", 1)]);
    for n in 0..20 {
        fixture.advance(SECOND * 2);
        let container = format!("c{}", n % 2);
        fixture.record(occurrence("BackOff", &n.to_string()).in_container(&container));
    }
    fixture.advance(SECOND);
    let combined = fixture
        .messages()
        .into_iter()
        .filter(|(m, _)| m.starts_with(COMBINED_PREFIX));
    assert_eq!(combined.count(), 1);
}

#[test]
fn events_that_differ_in_type_reason_object_source_or_host_are_separate() {
    let mut fixture = Fixture::new();
    let kubelet = Source::new("kubelet");
    let all = [
        occurrence("BackOff", "a"),
        occurrence("Killing", "a"),
        occurrence("BackOff", "a").warning(),
        occurrence("BackOff", "a").of("db"),
        occurrence("BackOff", "a").by(Source::new("scheduler")),
        occurrence("BackOff", "a").by(kubelet.on("n1")),
        occurrence("BackOff", "a").by(kubelet.on("n2")),
    ];
    for occurrence in all {
        fixture.advance(SECOND);
        fixture.record(occurrence);
    }
    assert_eq!(fixture.messages(), [("a", 1); 7]);
}

#[test]
fn the_next_write_counts_the_suppressed_events() {
    let mut fixture = Fixture::new();
    for _ in 0..100 {
        fixture.record(occurrence("BackOff", "a"));
        fixture.advance(SECOND * 2);
    }
    assert_eq!(fixture.messages(), [("a", 25)]);
    fixture.advance(Duration::from_mins(5));
    assert_eq!(
        fixture.messages(),
        [("a", 25)],
        "no write without a new event"
    );
    fixture.record(occurrence("BackOff", "a"));
    fixture.advance(SECOND);
    assert_eq!(fixture.messages(), [("a", 101)]);
}

#[test]
fn the_next_write_counts_a_suppressed_first_event() {
    let mut fixture = Fixture::new();
    for _ in 0..25 {
        fixture.record(occurrence("BackOff", "a"));
        fixture.advance(SECOND * 2);
    }
    fixture.record(occurrence("Killing", "b"));
    let began = fixture.now - fixture.start;
    assert_eq!(fixture.messages(), [("a", 25)]);
    fixture.advance(Duration::from_mins(10));
    fixture.record(occurrence("Killing", "b"));
    fixture.advance(SECOND);
    assert_eq!(fixture.messages(), [("a", 25), ("b", 2)]);
    let (_, draft) = fixture.writes.last().unwrap();
    assert_eq!(
        draft.first.as_second(),
        i64::try_from(began.as_secs()).unwrap()
    );
}

#[test]
fn a_day_of_changing_messages_needs_ten_events_and_few_writes() {
    let mut fixture = Fixture::new();
    for n in 0..24 * 360 {
        fixture.record(occurrence("BackOff", &format!("try {n} failed")).warning());
        fixture.advance(SECOND * 10);
    }
    assert_eq!(fixture.events().len(), MAX_SEPARATE + 1);
    let allowed_writes = 25 + 24 * 12;
    assert!(
        fixture.writes.len() <= allowed_writes,
        "{}",
        fixture.writes.len()
    );
    // The last write lacks at most the events of about five minutes.
    let (_, last) = fixture.writes.last().unwrap();
    let late = i32::try_from(24 * 360 - MAX_SEPARATE).unwrap() - last.count;
    assert!((0..=31).contains(&late), "{late}");
}

#[test]
fn pending_series_beyond_the_cache_size_are_due_at_once() {
    let mut fixture = Fixture::new();
    // The second event of each object makes its series pending.
    for n in 0..=CACHE_SIZE.get() {
        assert!(
            fixture
                .correlator
                .next_due()
                .is_none_or(|due| due > fixture.now)
        );
        for _ in 0..2 {
            fixture.record(occurrence("BackOff", "a").of(&n.to_string()));
        }
    }
    assert!(
        fixture
            .correlator
            .next_due()
            .is_some_and(|due| due <= fixture.now)
    );
}

mod properties {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::aggregator::MAX_INTERVAL;
    use crate::spam_filter::{BURST, REFILL};

    /// A step of a test: an event, a pause, and then the completion of the running writes if `completes` is set.
    #[derive(Clone, Debug)]
    struct Step {
        occurrence: Occurrence,
        pause: Duration,
        completes: bool,
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
            .prop_map(|(object, is_bad, reason, message, pause, completes)| {
                let occurrence = occurrence(reason, &message.to_string()).of(&object.to_string());
                Step {
                    occurrence: if is_bad {
                        occurrence.warning()
                    } else {
                        occurrence
                    },
                    pause: Duration::from_millis(pause),
                    completes,
                }
            })
    }

    /// Runs all steps, and completes all writes.
    fn run(steps: &[Step]) -> Fixture {
        let mut fixture = Fixture::new();
        fixture.is_slow = true;
        for step in steps {
            fixture.record(step.occurrence.clone());
            fixture.advance(step.pause);
            if step.completes {
                fixture.complete_writes();
            }
        }
        // The completion of a write can make its series pending again, which needs a second round.
        for _ in 0..2 {
            fixture.advance(REPEAT_DELAY);
            fixture.complete_writes();
        }
        fixture.advance(REPEAT_DELAY);
        fixture
    }

    /// Groups events by topic.
    fn topics<'a>(
        all: impl Iterator<Item = &'a Occurrence>,
    ) -> HashMap<Topic, Vec<&'a Occurrence>> {
        let mut topics: HashMap<Topic, Vec<&Occurrence>> = HashMap::new();
        for occurrence in all {
            topics
                .entry(Topic::of(occurrence))
                .or_default()
                .push(occurrence);
        }
        topics
    }

    fn total(fixture: &Fixture) -> usize {
        let counts = fixture.messages().into_iter().map(|(_, count)| count);
        usize::try_from(counts.sum::<i32>()).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn writes_of_a_subject_stay_within_the_limit(
            steps in vec(step(30, MAX_INTERVAL), 0..300),
        ) {
            let fixture = run(&steps);
            let mut times: HashMap<_, Vec<Instant>> = HashMap::new();
            for (at, draft) in &fixture.writes {
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
        fn up_to_25_events_are_never_lost(
            steps in vec(step(30, MAX_INTERVAL), 0..=25),
        ) {
            prop_assert_eq!(total(&run(&steps)), steps.len());
        }

        #[test]
        fn no_event_is_counted_twice(steps in vec(step(30, MAX_INTERVAL), 0..300)) {
            let fixture = run(&steps);
            prop_assert!(total(&fixture) <= steps.len());
            let mut entries: HashMap<&str, (i32, Timestamp)> = HashMap::new();
            for (_, draft) in &fixture.writes {
                if let Some((count, first)) = entries.insert(&draft.name, (draft.count, draft.first)) {
                    prop_assert!(count < draft.count);
                    prop_assert_eq!(first, draft.first);
                }
            }
        }

        #[test]
        fn active_topics_have_at_most_ten_events(
            steps in vec(step(30, Duration::from_secs(1)), 0..300),
        ) {
            let fixture = run(&steps);
            let events = topics(fixture.events().into_values().map(|draft| &draft.latest));
            for events in events.values() {
                prop_assert!(events.len() <= MAX_SEPARATE + 1);
            }
        }

        #[test]
        fn up_to_nine_messages_are_never_combined(steps in vec(step(MAX_SEPARATE, MAX_INTERVAL), 0..300)) {
            let fixture = run(&steps);
            let messages: HashSet<&str> = fixture.messages().into_iter().map(|(message, _)| message).collect();
            prop_assert!(messages.iter().all(|message| !message.starts_with(COMBINED_PREFIX)));
            let events = topics(fixture.events().into_values().map(|draft| &draft.latest));
            for events in events.values() {
                let messages: HashSet<_> = events.iter().map(|occurrence| &occurrence.event.message).collect();
                prop_assert_eq!(messages.len(), events.len());
            }
        }
    }
}
