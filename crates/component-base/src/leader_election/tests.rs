//! Tests of leader election in simulated time, with wall clocks that jump.

use std::sync::atomic::{AtomicI64, Ordering};

use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use serde_json::json;

use super::*;

type ResponseBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// Returns a client of a fake API server that stores one Lease.
fn server() -> kube::Client {
    server_with(Watches::Served)
}

#[derive(Clone, Copy, PartialEq)]
enum Watches {
    Served,
    Forbidden,
}

fn server_with(watches: Watches) -> kube::Client {
    let stored: Arc<Mutex<Option<Lease>>> = Arc::default();
    let changes = Arc::new(tokio::sync::watch::Sender::new(None));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (stored, changes) = (stored.clone(), changes.clone());
        async move {
            let method = request.method().clone();
            if request
                .uri()
                .query()
                .is_some_and(|query| query.contains("watch=true"))
            {
                return Ok(match watches {
                    Watches::Served => watched(changes.subscribe()),
                    Watches::Forbidden => {
                        let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
                            "code": 403, "reason": "Forbidden", "message": "" });
                        respond(403, &status)
                    }
                });
            }
            let sent = request.into_body().collect_bytes().await?;
            let mut stored = stored.lock().unwrap();
            let version = |lease: &Lease| lease.metadata.resource_version.clone();
            let refused = match (&method, &*stored) {
                (&Method::GET, None) => Some((404, "NotFound")),
                (&Method::POST, Some(_)) => Some((409, "AlreadyExists")),
                (&Method::PUT, Some(old)) => {
                    let new: Lease = serde_json::from_slice(&sent)?;
                    (version(&new) != version(old)).then_some((409, "Conflict"))
                }
                _ => None,
            };
            if let Some((code, reason)) = refused {
                let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
                    "code": code, "reason": reason, "message": "" });
                return Ok::<_, tower::BoxError>(respond(code, &status));
            }
            if method != Method::GET {
                let mut lease: Lease = serde_json::from_slice(&sent)?;
                let last = stored.as_ref().and_then(version);
                let next = last.map_or(1, |last| last.parse::<u64>().unwrap() + 1);
                lease.metadata.resource_version = Some(next.to_string());
                *stored = Some(lease);
                changes.send_replace(stored.clone());
            }
            Ok(respond(200, &*stored))
        }
    });
    kube::Client::new(service, "default")
}

fn respond(code: u16, body: &impl serde::Serialize) -> Response<ResponseBody> {
    let body = Full::new(Bytes::from(serde_json::to_vec(body).unwrap()));
    Response::builder()
        .status(StatusCode::from_u16(code).unwrap())
        .body(body.map_err(|never| match never {}).boxed_unsync())
        .unwrap()
}

/// Returns the response to a watch request: one event for the current Lease, if there is one, and one event for each
/// change.
fn watched(mut changes: tokio::sync::watch::Receiver<Option<Lease>>) -> Response<ResponseBody> {
    changes.mark_changed();
    let lines = futures::stream::unfold(changes, async |mut changes| {
        loop {
            changes.changed().await.ok()?;
            let lease = changes.borrow_and_update().clone();
            if let Some(lease) = lease {
                let mut line = json!({ "type": "MODIFIED", "object": lease }).to_string();
                line.push('\n');
                return Some((Ok(Frame::data(Bytes::from(line))), changes));
            }
        }
    });
    Response::new(StreamBody::new(lines).boxed_unsync())
}

/// A wall clock that a test moves by whole hours.
#[derive(Clone, Default)]
struct Jumpy(Arc<AtomicI64>);

impl Jumpy {
    fn jump(&self, hours: i64) {
        self.0.store(hours * 3600, Ordering::Relaxed);
    }

    fn clock(&self) -> WallClock {
        let offset = self.0.clone();
        WallClock::new(move || {
            Timestamp::now() + SignedDuration::from_secs(offset.load(Ordering::Relaxed))
        })
    }
}

fn candidate(client: &kube::Client, identity: &str) -> (Candidate, Leadership, Jumpy) {
    let options = LeaseOptions {
        namespace: "karmada-system".to_owned(),
        name: "karmada-scheduler".to_owned(),
        identity: identity.to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };
    let jumpy = Jumpy::default();
    let (candidate, leadership) = Candidate::new(client.clone(), options);
    (candidate.with_wall_clock(jumpy.clock()), leadership, jumpy)
}

#[tokio::test(start_paused = true)]
async fn jumping_clocks_do_not_affect_the_leadership() {
    let client = server();
    let (mut leader, leads, leaders_clock) = candidate(&client, "leader");
    let (mut standby, stands_by, standbys_clock) = candidate(&client, "standby");
    let cancel = CancellationToken::new();
    let soon = Duration::from_mins(1);
    let elected = tokio::time::timeout(soon, leader.acquire(&cancel)).await;
    assert_eq!(elected, Ok(true));
    let holding = {
        let cancel = cancel.clone();
        tokio::spawn(async move { leader.hold(&cancel).await })
    };
    let waiting = {
        let cancel = cancel.clone();
        tokio::spawn(async move { standby.acquire(&cancel).await })
    };
    for (leaders, standbys) in [(1, 0), (-1, 0), (0, 1), (0, -1), (1, -1), (-1, 1)] {
        leaders_clock.jump(leaders);
        standbys_clock.jump(standbys);
        for _ in 0..60 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(
                leads.holds(),
                "clocks {leaders} h and {standbys} h: the leader stopped leading"
            );
            assert!(
                !stands_by.holds(),
                "clocks {leaders} h and {standbys} h: the standby leads"
            );
        }
    }
    // The leader dies, and the clock of the standby jumps back by two hours.
    holding.abort();
    standbys_clock.jump(-1);
    let gone = Instant::now();
    let elected = tokio::time::timeout(soon, waiting).await.unwrap();
    assert!(elected.unwrap());
    assert!(stands_by.holds());
    let took = gone.elapsed();
    assert!(took <= Duration::from_secs(16), "{took:?}");
    assert!(!leads.holds(), "two leaders");
}

/// Releases the Lease while a standby waits, and returns the time until the standby leads.
async fn handed_over(client: &kube::Client) -> Duration {
    let (mut leader, _, _) = candidate(client, "leader");
    let (mut standby, _, _) = candidate(client, "standby");
    let cancel = CancellationToken::new();
    assert!(leader.acquire(&cancel).await);
    let ending = cancel.child_token();
    let holding = {
        let ending = ending.clone();
        tokio::spawn(async move {
            assert!(leader.hold(&ending).await);
            leader.release().await;
        })
    };
    let waiting = tokio::spawn(async move { standby.acquire(&cancel).await });
    // At this time, the standby is between two reads.
    tokio::time::sleep(Duration::from_millis(4100)).await;
    ending.cancel();
    holding.await.unwrap();
    let released = Instant::now();
    assert!(waiting.await.unwrap());
    released.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_watching_standby_leads_as_soon_as_the_lease_is_released() {
    let took = handed_over(&server()).await;
    assert!(took < Duration::from_millis(10), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_standby_without_a_watch_leads_at_its_next_read() {
    let took = handed_over(&server_with(Watches::Forbidden)).await;
    assert!(took > Duration::ZERO, "{took:?}");
    assert!(took <= Duration::from_millis(500), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_standby_leads_as_soon_as_the_record_of_a_dead_leader_expires() {
    let client = server();
    let (mut leader, _, _) = candidate(&client, "leader");
    let (mut standby, _, _) = candidate(&client, "standby");
    let cancel = CancellationToken::new();
    assert!(leader.acquire(&cancel).await);
    let gone = Instant::now();
    drop(leader);
    assert!(standby.acquire(&cancel).await);
    let took = gone.elapsed();
    assert!(took >= Duration::from_secs(15), "{took:?}");
    assert!(took < Duration::from_millis(15_100), "{took:?}");
}
