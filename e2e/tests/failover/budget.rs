//! The move budget: a member that flaps cannot empty a fleet.

use std::num::NonZeroU32;
use std::time::Duration;

use berth_controllers::failover::FailoverOptions;
use berth_e2e::eventually;
use berth_e2e::eventually::never;
use serde_json::json;

use crate::scene::{Scene, binding, quick, targets};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_bindings_leave_within_a_minute_than_the_budget_allows() {
    let options = FailoverOptions {
        move_budget: NonZeroU32::new(3),
        ..quick()
    };
    let scene = Scene::start(2, options).await;
    let names: Vec<String> = (0..10).map(|n| format!("web{n}")).collect();
    let on_m1 = json!({ "clusterAffinity": { "clusterNames": ["m1"] } });
    for name in &names {
        scene.bare.bind(&binding(name, &on_m1, &json!({}))).await;
    }
    for name in &names {
        assert_eq!(scene.placed(name).await, ["m1"]);
    }
    let left = async || {
        let mut left = 0;
        for name in &names {
            left += usize::from(targets(&scene.get(name).await).is_empty());
        }
        left
    };
    let down = json!([{ "key": "down", "effect": "NoExecute" }]);
    scene.taint("m1", &down).await;
    eventually("the budget to be spent", async || match left().await {
        3 => Ok(()),
        other => Err(format!("{other} have left")),
    })
    .await;
    // It comes back and fails again, and again.
    for _ in 0..3 {
        scene.taint("m1", &json!([])).await;
        scene.taint("m1", &down).await;
    }
    never(
        "more than the budget leave",
        Duration::from_secs(1),
        async || {
            let left = left().await;
            if left <= 3 {
                Ok(())
            } else {
                Err(format!("{left} have left"))
            }
        },
    )
    .await;
    scene.stop().await;
}
