//! A scheduler process that is ended in the middle of its work.

use std::time::Instant;

use berth_e2e::{Bare, eventually};

use crate::objects::{fleet, mixed};
use crate::process::{ANY_PORT, Program};
use crate::watching::{all_decided, all_placed, each_written_once, is_settled};

const BINDINGS: u32 = 1000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_completes_what_sigterm_interrupted() {
    let bare = Bare::start(&fleet(4)).await;
    let bindings = mixed("w", BINDINGS);
    let wanted = all_decided(&bare, &bindings).await;
    bare.bind_all(&bindings).await;
    let arguments = [
        "--leader-elect=false",
        "--kube-api-qps=0",
        ANY_PORT[0],
        ANY_PORT[1],
    ];
    let mut first = Program::start(bare.folder(), &bare.kubeconfig(), &arguments);
    eventually("some bindings to be placed", async || {
        let stored = bare.all_bindings().await;
        let placed = stored.iter().filter(|b| is_settled(b)).count();
        if placed >= 50 {
            Ok(())
        } else {
            Err(format!("{placed}"))
        }
    })
    .await;
    first.signal("TERM");
    let asked = Instant::now();
    let status = first.ended().await;
    let took = asked.elapsed();
    assert!(status.success(), "{status}\n{}", first.log());
    let stored = bare.all_bindings().await;
    let placed = stored.iter().filter(|binding| is_settled(binding)).count();
    let begun = stored
        .iter()
        .filter(|b| b.metadata.generation == Some(2))
        .count();
    assert!(
        placed < stored.len(),
        "the signal came too late to interrupt anything"
    );
    assert_eq!(placed, begun, "a result without its status was left behind");

    let restarted = Instant::now();
    let _second = Program::start(bare.folder(), &bare.kubeconfig(), &arguments);
    let all = all_placed(&bare, &wanted).await;
    each_written_once(&all);
    println!(
        "SIGTERM after {placed} of {BINDINGS} bindings: ended within {took:.1?}, nothing half-written; \
         the next process placed the rest in {:.1?}",
        restarted.elapsed()
    );
    bare.stop().await;
}
