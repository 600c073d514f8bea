//! Tests of the lines about decisions that `-v=2` and `-v=3` add to the log of a scheduler.

use berth_e2e::{BareControlPlane, Program};

use crate::objects::{binding, fleet, on_cluster};
use crate::process::{self, ANY_PORT};

fn start(bare: &BareControlPlane, verbosity: &str) -> Program {
    let arguments = [verbosity, ANY_PORT[0], ANY_PORT[1]];
    process::start(bare.folder(), &bare.kubeconfig(), &arguments)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_verbosity_adds_results_and_then_their_reasons() {
    let bare = BareControlPlane::start(&fleet(2)).await;
    let scheduler = start(&bare, "-v=2");
    bare.bind(&binding("first", 1, on_cluster("m1"))).await;
    let placed = scheduler.wait_for_log("DEBUG placed a binding").await;
    let expected = " binding=default/first clusters=m1:1 duration=";
    assert!(placed.starts_with(expected), "{placed}");
    let log = scheduler.log();
    assert!(!log.contains("DEBUG decided"), "{log}");
    drop(scheduler);

    let scheduler = start(&bare, "-v=3");
    bare.bind(&binding("second", 1, on_cluster("m2"))).await;
    let decided = scheduler.wait_for_log("DEBUG decided ").await;
    let expected = "binding=default/second trigger=";
    assert!(decided.starts_with(expected), "{decided}");
    assert!(decided.contains(" clusters=1 duration="), "{decided}");
    scheduler.wait_for_log("DEBUG placed a binding").await;
    bare.bind(&binding("third", 1, on_cluster("nowhere"))).await;
    let rejected = scheduler
        .wait_for_log("DEBUG no cluster passes the filters")
        .await;
    for part in [" binding=default/third", " rejected=m1:", ", m2:"] {
        assert!(rejected.contains(part), "{part}: {rejected}");
    }
    scheduler.wait_for_log("DEBUG decided: no placement").await;
    drop(scheduler);
    bare.stop().await;
}
