//! The move budget, which limits the number of evictions within a minute when a member fails and recovers repeatedly.

use std::num::NonZeroU32;

use berth_controllers::failover::FailoverOptions;
use berth_e2e::eventually;
use serde_json::json;

use crate::scene::{Scene, binding, fast_options, targets};

/// Checks that a member with ten bindings and a budget of three loses at most three bindings, also if it is tainted
/// several times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn evictions_within_a_minute_do_not_exceed_the_move_budget() {
    let options = FailoverOptions {
        move_budget: NonZeroU32::new(3),
        ..fast_options()
    };
    let scene = Scene::start(2, options).await;
    let names: Vec<String> = (0..10).map(|n| format!("web{n}")).collect();
    let on_m1 = json!({ "clusterAffinity": { "clusterNames": ["m1"] } });
    for name in &names {
        scene.bare.bind(&binding(name, &on_m1, &json!({}))).await;
    }
    for name in &names {
        assert_eq!(scene.wait_until_placed(name).await, ["m1"]);
    }
    let on_m2 = json!({ "clusterAffinity": { "clusterNames": ["m2"] } });
    let marker = binding("on-m2", &on_m2, &json!({}));
    scene.bare.bind(&marker).await;
    scene.wait_until_placed("on-m2").await;
    let on_m2_waits = r#"eviction_kind_total{member_cluster="m2",resource_kind="Deployment"} 1"#;
    let evicted = async || {
        let mut evicted = 0;
        for name in &names {
            evicted += usize::from(targets(&scene.get(name).await).is_empty());
        }
        evicted
    };
    let down = json!([{ "key": "down", "effect": "NoExecute" }]);
    scene.taint("m1", &down).await;
    eventually("three evictions", async || match evicted().await {
        3 => Ok(()),
        other => Err(format!("{other} were evicted")),
    })
    .await;
    // Let the member recover and fail again several times.
    for _ in 0..3 {
        scene.taint("m1", &json!([])).await;
        scene.taint("m1", &down).await;
    }
    // Taint m2 last. When the binding in m2 waits for its eviction, failover has handled all earlier taints of m1.
    scene.taint("m2", &down).await;
    scene.wait_for_metric(on_m2_waits).await;
    scene.wait_until_drained_up_to_now().await;
    // A recovery cancels evictions. The budget also limits how often a binding is evicted again.
    assert!(evicted().await <= 3);
    scene.stop().await;
}
