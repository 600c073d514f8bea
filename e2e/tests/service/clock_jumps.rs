//! A test of jumps of the wall clock while a scheduler runs. The jumps change the recorded times only.

pub(crate) mod wall_clock;

use berth_e2e::{BareControlPlane, eventually};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;

use crate::assertions::is_settled;
use crate::objects::{binding, fleet, on_cluster};
use crate::process::{self, ANY_PORT};
use wall_clock::Clock;

/// One hour in seconds.
const HOUR: i64 = 3600;
/// Tolerance in seconds, which is much longer than the test and much shorter than a jump.
const NEAR: i64 = 1200;

/// Returns the difference in seconds between a time and the machine's clock. It is positive for a time in the future.
fn seconds_ahead(time: Timestamp) -> i64 {
    time.as_second() - Timestamp::now().as_second()
}

/// Returns the holder and the renew time of the lease.
async fn lease(bare: &BareControlPlane) -> (String, Timestamp) {
    let leases: Api<Lease> = Api::namespaced(bare.client.clone(), "karmada-system");
    let lease = leases.get("karmada-scheduler").await.unwrap();
    let spec = lease.spec.unwrap();
    (
        spec.holder_identity.unwrap_or_default(),
        spec.renew_time.unwrap().0,
    )
}

/// Waits until the lease has been renewed several times with the time of a clock with this offset in seconds. Returns
/// the holder of the lease.
async fn wait_for_renewals_at(bare: &BareControlPlane, offset: i64) -> String {
    let mut seen = Vec::new();
    eventually(
        "the lease to be renewed by the clock that jumped",
        async || {
            let (holder, renewed) = lease(bare).await;
            if (seconds_ahead(renewed) - offset).abs() < NEAR && !seen.contains(&renewed) {
                seen.push(renewed);
            }
            if seen.len() >= 4 {
                Ok(holder)
            } else {
                Err(format!("renewed at {renewed} by {holder}"))
            }
        },
    )
    .await
}

/// Creates a binding, waits until it is placed, and returns the difference in seconds between its recorded time and the
/// machine's clock.
async fn bind_and_wait(bare: &BareControlPlane, name: &str) -> i64 {
    bare.bind(&binding(name, 1, on_cluster("m1"))).await;
    eventually("a new binding to be placed", async || {
        let binding = bare.bindings("default").get(name).await.unwrap();
        let recorded = binding
            .status
            .as_ref()
            .and_then(|s| s.last_scheduled_time.clone());
        match recorded {
            Some(time) if is_settled(&binding) => Ok(seconds_ahead(time.0)),
            _ => Err("not yet"),
        }
    })
    .await
}

/// The clock of the leader jumps three times. The standby takes over only after the leader is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_clock_jumps_keeps_its_lease_and_schedules() {
    let bare = BareControlPlane::start(&fleet(2)).await;
    let clock = Clock::make(bare.folder());
    let arguments = [
        &ANY_PORT[..],
        // With these short durations, a standby that trusted the times in the lease would quickly take over.
        &[
            "--leader-elect-lease-duration=6s",
            "--leader-elect-renew-deadline=5s",
            "--leader-elect-retry-period=300ms",
            "--feature-gates=SchedulingOvercommitProtection=true",
        ],
    ]
    .concat();
    let leader = process::start_in(
        bare.folder(),
        &bare.kubeconfig(),
        &arguments,
        &clock.environment(),
    );
    leader.wait_for_log("successfully acquired lease").await;
    let standby = process::start(bare.folder(), &bare.kubeconfig(), &arguments);
    standby.wait_for_log("caches are filled").await;
    assert!(bind_and_wait(&bare, "before").await.abs() < NEAR);
    let holder = wait_for_renewals_at(&bare, 0).await;

    for (name, offset) in [("ahead", HOUR), ("behind", -HOUR), ("again", 24 * HOUR)] {
        clock.jump_to(offset);
        assert_eq!(wait_for_renewals_at(&bare, offset).await, holder, "{name}");
        let recorded = bind_and_wait(&bare, name).await;
        assert!((recorded - offset).abs() < NEAR, "{name}: {recorded}");
    }
    assert!(
        !standby.log().contains("successfully acquired lease"),
        "{}",
        standby.log()
    );

    // Although the last renew time is in the future, the standby takes over.
    leader.signal("KILL");
    standby.wait_for_log("successfully acquired lease").await;
    assert!(bind_and_wait(&bare, "after").await.abs() < NEAR);
    bare.stop().await;
}
