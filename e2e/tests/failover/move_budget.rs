//! The move budget: limits the evictions that a flapping member causes.

use std::num::NonZeroU32;
use std::time::Duration;

use berth_controllers::failover::FailoverOptions;
use berth_e2e::eventually;
use berth_e2e::eventually::never;
use serde_json::json;

use crate::scene::{Scene, binding, fast_options, targets};

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
    let evicted = async || {
        let mut evicted = 0;
        for name in &names {
            evicted += usize::from(targets(&scene.get(name).await).is_empty());
        }
        evicted
    };
    let down = json!([{ "key": "down", "effect": "NoExecute" }]);
    scene.taint("m1", &down).await;
    eventually("the budget to be spent", async || match evicted().await {
        3 => Ok(()),
        other => Err(format!("{other} were evicted")),
    })
    .await;
    // The member recovers and fails again several times.
    for _ in 0..3 {
        scene.taint("m1", &json!([])).await;
        scene.taint("m1", &down).await;
    }
    never(
        "an eviction above the budget",
        Duration::from_secs(1),
        async || {
            let evicted = evicted().await;
            if evicted <= 3 {
                Ok(())
            } else {
                Err(format!("{evicted} were evicted"))
            }
        },
    )
    .await;
    scene.stop().await;
}
