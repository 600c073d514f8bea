use super::backoff::INITIAL_BACKOFF;
use super::*;

impl Queue {
    fn pop(&mut self) -> Option<BindingKey> {
        self.pop_with_age().map(|(key, _)| key)
    }
}

fn key(name: &str) -> BindingKey {
    BindingKey::new("n", name)
}

fn order(queue: &mut Queue) -> Vec<String> {
    std::iter::from_fn(|| queue.pop())
        .map(|key| key.name.to_string())
        .collect()
}

/// Prints the time of 100,000 pushes and pops. Run with
/// `cargo test --release -p berth-scheduler --lib measure_100_000_turns -- --ignored --nocapture`.
#[test]
#[ignore = "prints a measurement"]
fn measure_100_000_turns() {
    for (turns, about) in [(Turns::default(), "on"), (Turns::None, "off")] {
        for namespaces in [1, 1_000] {
            for cluster_queues in [0, 100] {
                let keys: Vec<BindingKey> = (0..100_000)
                    .map(|number: u32| {
                        let namespace = format!("n{}", number % namespaces);
                        BindingKey::new(&namespace, &number.to_string())
                    })
                    .collect();
                let mut queue = Queue::new(QueueOrder::Priority, &turns);
                for (number, key) in (0_u32..).zip(&keys).filter(|_| cluster_queues > 0) {
                    let name = format!("q{}", number % cluster_queues);
                    queue.assign(key, Some(name.into()));
                }
                let began = Instant::now();
                for key in &keys {
                    queue.push(key, Rank::of(0), began);
                }
                let pushed = began.elapsed();
                let mut popped = 0;
                while let Some(key) = queue.pop() {
                    queue.done(&key, Verdict::Done, began);
                    popped += 1;
                }
                assert_eq!(popped, keys.len());
                println!(
                    "FairQueueing {about}, {namespaces} namespaces, {cluster_queues} ClusterQueues: push {pushed:?}, pop {:?}",
                    began.elapsed().saturating_sub(pushed)
                );
            }
        }
    }
}

#[test]
fn a_ready_key_joins_the_turns_of_its_cluster_queue() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let other = BindingKey::new("m", "other");
    for key in [key("a"), key("b"), key("c"), other.clone()] {
        queue.push(&key, Rank::of(0), now);
    }
    queue.assign(&other, Some("q".into()));
    queue.assign(&key("a"), Some("q".into()));
    queue.set_queue_weights(BTreeMap::from([("q".into(), 2)]));
    let position = queue.position(&key("c")).map(|(_, position)| position);
    let expected = Position {
        place: 2,
        of: 2,
        tenants: 2,
        before: 3,
    };
    assert_eq!(position, Some(expected));
    queue.assign(&key("a"), None);
    assert_eq!(order(&mut queue), ["b", "other", "c", "a"]);
}

#[test]
fn a_cluster_change_during_a_write_is_kept() {
    let now = Instant::now();
    let cases = [
        ("activated, waits", true, Verdict::Wait, true),
        ("activated, retried", true, Verdict::Retry, true),
        ("activated, done", true, Verdict::Done, false),
        ("reconciled, done", false, Verdict::Done, true),
    ];
    for (name, activated, verdict, ready) in cases {
        let mut queue = Queue::default();
        queue.push(&key("a"), Rank::of(0), now);
        queue.pop();
        assert_eq!(queue.keys_in_processing().count(), 1, "{name}");
        // `clear_pending` discards the event of the scheduler's own write and keeps the cluster change.
        queue.push(&key("a"), Rank::of(0), now);
        if activated {
            queue.activate(&key("a"), now);
        } else {
            queue.reconcile(&key("a"), Rank::of(0), now);
        }
        queue.clear_pending(&key("a"));
        queue.done(&key("a"), verdict, now);
        assert_eq!(queue.pop().is_some(), ready, "{name}");
    }
}

#[test]
fn keys_of_higher_priority_come_first_then_older_keys() {
    let (mut queue, start) = (Queue::default(), Instant::now());
    queue.push(&key("old"), Rank::of(0), start);
    queue.push(&key("new"), Rank::of(0), start + Duration::from_millis(1));
    queue.push(
        &key("urgent"),
        Rank::of(10),
        start + Duration::from_millis(2),
    );
    assert_eq!(order(&mut queue), ["urgent", "old", "new"]);
}

#[test]
fn a_priority_that_changes_while_queued_takes_effect() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    queue.push(&key("a"), Rank::of(0), now);
    queue.push(&key("b"), Rank::of(0), now);
    queue.push(&key("b"), Rank::of(5), now);
    assert_eq!(order(&mut queue), ["b", "a"]);
}

#[test]
fn a_key_pushed_during_processing_returns_with_its_new_priority() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    queue.push(&key("a"), Rank::of(0), now);
    assert_eq!(queue.pop(), Some(key("a")));
    queue.push(&key("a"), Rank::of(7), now);
    queue.push(&key("b"), Rank::of(3), now);
    queue.done(&key("a"), Verdict::Wait, now);
    assert_eq!(order(&mut queue), ["a", "b"]);
}

#[test]
fn our_own_write_does_not_requeue_the_key() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    queue.push(&key("a"), Rank::of(0), now);
    queue.pop();
    queue.push(&key("a"), Rank::of(0), now);
    queue.clear_pending(&key("a"));
    queue.done(&key("a"), Verdict::Done, now);
    assert_eq!(queue.depth(), Depth::default());
}

#[test]
fn retries_back_off_from_one_to_ten_seconds() {
    let (mut queue, mut now) = (Queue::default(), Instant::now());
    queue.push(&key("a"), Rank::of(0), now);
    for expected in [1, 2, 4, 8, 10, 10] {
        queue.pop();
        queue.done(&key("a"), Verdict::Retry, now);
        let wait = Duration::from_secs(expected);
        assert_eq!(queue.next_flush(), Some(now + wait));
        queue.flush(now + wait.saturating_sub(Duration::from_millis(1)));
        assert!(!queue.has_ready());
        now += wait;
        queue.flush(now);
        assert!(queue.has_ready());
    }
}

#[test]
fn a_delay_that_the_server_requests_extends_the_backoff() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    queue.push(&key("a"), Rank::of(0), now);
    queue.pop();
    queue.done(&key("a"), Verdict::Retry, now);
    queue.postpone(&key("a"), now + Duration::from_secs(7));
    assert_eq!(queue.next_flush(), Some(now + Duration::from_secs(7)));
    queue.postpone(&key("a"), now);
    assert_eq!(queue.next_flush(), Some(now + Duration::from_secs(7)));
    assert_eq!(queue.depth().backoff, 1);
}

#[test]
fn a_completed_cycle_resets_the_backoff() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    queue.push(&key("a"), Rank::of(0), now);
    queue.pop();
    queue.done(&key("a"), Verdict::Retry, now);
    queue.push(&key("a"), Rank::of(0), now);
    queue.pop();
    queue.done(&key("a"), Verdict::Done, now);
    queue.push(&key("a"), Rank::of(0), now);
    queue.pop();
    queue.done(&key("a"), Verdict::Retry, now);
    assert_eq!(queue.next_flush(), Some(now + INITIAL_BACKOFF));
}

#[test]
fn a_waiting_key_returns_after_five_minutes_an_activation_or_a_push() {
    let now = Instant::now();
    let waiting = || {
        let mut queue = Queue::default();
        queue.push(&key("a"), Rank::of(0), now);
        queue.pop();
        queue.done(&key("a"), Verdict::Wait, now);
        queue
    };
    let mut queue = waiting();
    queue.flush(now + MAX_WAITING.saturating_sub(Duration::from_secs(1)));
    assert!(!queue.has_ready());
    queue.flush(now + MAX_WAITING);
    assert_eq!(queue.pop(), Some(key("a")));
    let mut queue = waiting();
    queue.activate(&key("a"), now);
    assert_eq!(queue.pop(), Some(key("a")));
    let mut queue = waiting();
    queue.push(&key("a"), Rank::of(0), now);
    assert_eq!(queue.pop(), Some(key("a")));
    assert_eq!(queue.delayed_keys().count(), 0);
}

#[test]
fn a_key_that_waits_for_estimates_is_retried_after_twice_the_time() {
    let mut now = Instant::now();
    let mut queue = Queue::default();
    queue.push(&key("a"), Rank::of(0), now);
    for wait in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
        queue.pop();
        queue.done(&key("a"), Verdict::WaitForEstimates, now);
        assert_eq!(queue.next_flush(), Some(now + Duration::from_secs(wait)));
        assert_eq!((queue.depth().waiting, queue.depth().backoff), (1, 0));
        now += Duration::from_secs(wait);
        queue.flush(now);
        assert!(queue.has_ready(), "{wait}");
    }
}

#[test]
fn activated_keys_follow_fresh_keys_without_starvation() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    for name in ["w0", "w1"] {
        queue.push(&key(name), Rank::of(100), now);
        queue.pop();
        queue.done(&key(name), Verdict::Wait, now);
        queue.activate(&key(name), now);
    }
    for name in ["f0", "f1", "f2", "f3", "f4"] {
        queue.push(&key(name), Rank::of(0), now + Duration::from_secs(1));
    }
    queue.fresh_served = 0;
    assert_eq!(
        order(&mut queue),
        ["f0", "f1", "f2", "f3", "w0", "f4", "w1"]
    );
}

#[test]
fn back_off_moves_a_waiting_key_to_backoff() {
    let now = Instant::now();
    for still_processing in [true, false] {
        let mut queue = Queue::default();
        queue.push(&key("a"), Rank::of(0), now);
        queue.pop();
        if still_processing {
            queue.back_off(&key("a"), now);
            queue.done(&key("a"), Verdict::Wait, now);
        } else {
            queue.done(&key("a"), Verdict::Wait, now);
            queue.back_off(&key("a"), now);
        }
        assert_eq!((queue.depth().backoff, queue.depth().waiting), (1, 0));
        assert_eq!(queue.next_flush(), Some(now + INITIAL_BACKOFF));
    }
}

#[test]
fn a_key_that_is_not_in_processing_is_removed_at_once() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    for (name, verdict) in [
        ("ready", None),
        ("backoff", Some(Verdict::Retry)),
        ("waiting", Some(Verdict::Wait)),
    ] {
        queue.push(&key(name), Rank::of(0), now);
        if let Some(verdict) = verdict {
            queue.pop();
            queue.done(&key(name), verdict, now);
        }
        queue.remove(&key(name));
        assert_eq!(queue.depth(), Depth::default(), "{name}");
    }
}

#[test]
fn arrival_order_ignores_priority_and_limits_retries() {
    let order = QueueOrder::Arrival {
        base: Duration::from_millis(5),
        max: Duration::from_millis(20),
        qps: 10,
        burst: 3,
    };
    let (mut queue, now) = (Queue::new(order, &Turns::None), Instant::now());
    queue.push(&key("old"), Rank::of(0), now);
    queue.push(
        &key("urgent"),
        Rank::of(100),
        now + Duration::from_millis(1),
    );
    assert_eq!(queue.pop(), Some(key("old")));
    for expected in [5, 10, 20, 100] {
        // The fourth failure exceeds the burst.
        queue.done(&key("old"), Verdict::Wait, now);
        assert_eq!(
            queue.next_flush(),
            Some(now + Duration::from_millis(expected))
        );
        queue.push(&key("old"), Rank::of(0), now);
        assert_eq!(queue.pop(), Some(key("old")));
    }
}
