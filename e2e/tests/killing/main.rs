//! Controllers and scheduler that are killed at any moment, again and again: in the end all is as if they had not been.
//!
//! They run as processes of their own against the API servers of an embedded control plane and its simulated members. A
//! story of policies, templates, scales, deletions and edits in members is told twice: in peace, and while the processes
//! die of SIGKILL and are started again. Then the control plane and all members have to say the same.
//!
//! `BERTH_KILL_SEEDS=50 cargo test -p berth-e2e --test killing` tells fifty stories, and `BERTH_KILL_FIRST=7` begins with
//! the seventh.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is how a test fails"
)]

mod clock;
mod election;
mod numbers;
mod processes;
mod scene;
mod state;
mod story;
#[path = "../service/clock/wall_clock.rs"]
mod wall_clock;

use std::time::Duration;

use numbers::Numbers;
use scene::Scene;
use state::{State, differences};

/// The stories that are told where nobody says how many.
const SEEDS: u64 = 3;
/// For so long nothing may change before a peaceful story counts as over.
const QUIET: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_may_be_killed_at_any_moment() {
    let seeds = std::env::var("BERTH_KILL_SEEDS").ok();
    let seeds = seeds.map_or(SEEDS, |text| text.parse().unwrap());
    let first = std::env::var("BERTH_KILL_FIRST").ok();
    let first = first.map_or(1, |text| text.parse().unwrap());
    for seed in first..first + seeds {
        let (peaceful, (scene, kills)) = tokio::join!(in_peace(seed), disturbed(seed));
        let mut last = State::new();
        berth_e2e::eventually(
            &format!("seed {seed}: the state of a peaceful story"),
            async || {
                last = scene.state().await;
                let different = differences(&peaceful, &last);
                if different.is_empty() {
                    Ok(())
                } else {
                    Err(different.join("\n"))
                }
            },
        )
        .await;
        println!("seed {seed}: {} objects, {kills} kills", last.len());
        scene.stop().await;
    }
}

/// Tells the story of a seed in peace, and waits for its end.
async fn in_peace(seed: u64) -> State {
    let scene = Scene::start().await;
    scene.start_controllers();
    scene.start_scheduler();
    story::tell(&scene, &mut Numbers::new(seed)).await;
    let state = scene.quiet(QUIET).await;
    scene.stop().await;
    state
}

/// Tells it while the processes are killed again and again; how often they were.
async fn disturbed(seed: u64) -> (Scene, usize) {
    let scene = Scene::start().await;
    scene.start_controllers();
    scene.start_scheduler();
    let mut kills = 0;
    {
        let mut story_numbers = Numbers::new(seed);
        let mut telling = std::pin::pin!(story::tell(&scene, &mut story_numbers));
        let mut moments = Numbers::new(seed + 1_000_000);
        loop {
            let pause = Duration::from_millis(moments.below(700));
            tokio::select! {
                () = &mut telling => break,
                () = tokio::time::sleep(pause) => {}
            }
            scene.kill(&mut moments);
            kills += 1;
        }
    }
    // Also while the rest arrives.
    let mut moments = Numbers::new(seed + 2_000_000);
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(moments.below(900))).await;
        scene.kill(&mut moments);
        kills += 1;
    }
    (scene, kills)
}
