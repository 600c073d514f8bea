//! The wall clock of a running scheduler jumps. Nothing is decided by it, so nothing changes but the times that
//! others read.

mod wall_clock;

use berth_e2e::{Bare, eventually};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;

use crate::objects::{binding, fleet, on};
use crate::process::{ANY_PORT, Program};
use crate::watching::is_settled;
use wall_clock::Clock;

/// An hour, as clocks are set by it.
const HOUR: i64 = 3600;
/// Far more than a test takes, and far less than a jump.
const NEAR: i64 = 1200;

/// How many seconds a time is ahead of the machine's clock.
fn ahead(time: Timestamp) -> i64 {
    time.as_second() - Timestamp::now().as_second()
}

async fn lease(bare: &Bare) -> (String, Timestamp) {
    let leases: Api<Lease> = Api::namespaced(bare.client.clone(), "karmada-system");
    let lease = leases.get("karmada-scheduler").await.unwrap();
    let spec = lease.spec.unwrap();
    (
        spec.holder_identity.unwrap_or_default(),
        spec.renew_time.unwrap().0,
    )
}

/// Waits until the lease is renewed, several times, by a clock that is so far ahead; says who holds it.
async fn renewed_at(bare: &Bare, offset: i64) -> String {
    let mut seen = Vec::new();
    eventually(
        "the lease to be renewed by the clock that jumped",
        async || {
            let (holder, renewed) = lease(bare).await;
            if (ahead(renewed) - offset).abs() < NEAR && !seen.contains(&renewed) {
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

/// Places a new binding, and says how far ahead of the machine's clock that was recorded.
async fn places(bare: &Bare, name: &str) -> i64 {
    bare.bind(&binding(name, 1, on("m1"))).await;
    eventually("a new binding to be placed", async || {
        let binding = bare.bindings("default").get(name).await.unwrap();
        let recorded = binding
            .status
            .as_ref()
            .and_then(|s| s.last_scheduled_time.clone());
        match recorded {
            Some(time) if is_settled(&binding) => Ok(ahead(time.0)),
            _ => Err("not yet"),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_clock_jumps_stays_in_office_and_goes_on() {
    let bare = Bare::start(&fleet(2)).await;
    let clock = Clock::make(bare.folder());
    let arguments = [
        &ANY_PORT[..],
        // The standby would be quick, were it to believe the times in the lease.
        &[
            "--leader-elect-lease-duration=6s",
            "--leader-elect-renew-deadline=5s",
            "--leader-elect-retry-period=300ms",
            "--feature-gates=SchedulingOvercommitProtection=true",
        ],
    ]
    .concat();
    let leader = Program::start_in(
        bare.folder(),
        &bare.kubeconfig(),
        &arguments,
        &clock.environment(),
    );
    leader.says("became leader").await;
    let standby = Program::start(bare.folder(), &bare.kubeconfig(), &arguments);
    standby.says("caches are filled").await;
    assert!(places(&bare, "before").await.abs() < NEAR);
    let holder = renewed_at(&bare, 0).await;

    for (name, offset) in [("ahead", HOUR), ("behind", -HOUR), ("again", 24 * HOUR)] {
        clock.jump_to(offset);
        assert_eq!(renewed_at(&bare, offset).await, holder, "{name}");
        let recorded = places(&bare, name).await;
        assert!((recorded - offset).abs() < NEAR, "{name}: {recorded}");
    }
    assert!(
        !standby.log().contains("became leader"),
        "{}",
        standby.log()
    );

    // A lease that claims to be of tomorrow keeps nobody out.
    leader.signal("KILL");
    standby.says("became leader").await;
    assert!(places(&bare, "after").await.abs() < NEAR);
    bare.stop().await;
}
