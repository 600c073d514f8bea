//! Crash tests of the controllers and the scheduler, whose processes are killed repeatedly at random moments. The
//! modules [`election`] and [`clock`] test leader election and jumps of the wall clock.
//!
//! The controllers and the scheduler are separate processes. They connect to the API servers of an embedded control
//! plane and of its simulated members. Each seed yields a scenario of policies, templates, scaling, deletions and edits
//! in members. The scenario runs twice: once without crashes, and once while the test kills the processes with SIGKILL
//! and restarts them. Both runs must reach the same state in the control plane and in all members.
//!
//! `BERTH_KILL_SEEDS=50 cargo test -p berth-e2e --test crash` runs 50 seeds. `BERTH_KILL_FIRST=7` sets the first seed
//! to 7.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is how a test fails"
)]

mod clock;
mod election;
#[path = "../monitoring/http.rs"]
mod http;
mod numbers;
mod processes;
mod scenario;
mod scene;
mod state;
#[path = "../service/clock_jumps/wall_clock.rs"]
mod wall_clock;

use std::time::Duration;

use numbers::Numbers;
use scene::Scene;
use state::{State, differences};

/// The default number of seeds.
const SEEDS: u64 = 2;
/// The time without changes after which a run without crashes is finished.
const QUIET_TIME: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_controllers_and_scheduler_at_any_moment_does_not_change_the_result() {
    let seeds = std::env::var("BERTH_KILL_SEEDS").ok();
    let seeds = seeds.map_or(SEEDS, |text| text.parse().unwrap());
    let first = std::env::var("BERTH_KILL_FIRST").ok();
    let first = first.map_or(1, |text| text.parse().unwrap());
    for seed in first..first + seeds {
        let (expected, (scene, kills)) =
            tokio::join!(run_undisturbed(seed), run_with_crashes(seed));
        let mut last = State::new();
        berth_e2e::eventually(
            &format!("seed {seed}: the state of the run without crashes"),
            async || {
                last = scene.state().await;
                let different = differences(&expected, &last);
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

/// Runs the scenario of a seed without crashes and returns the final state.
async fn run_undisturbed(seed: u64) -> State {
    let scene = Scene::start().await;
    scene.start_controllers();
    scene.start_scheduler();
    scenario::run(&scene, &mut Numbers::new(seed)).await;
    let state = scene.wait_until_quiet(QUIET_TIME).await;
    scene.stop().await;
    state
}

/// Runs the scenario of a seed while it kills and restarts processes. Returns the scene and the number of kills.
async fn run_with_crashes(seed: u64) -> (Scene, usize) {
    let scene = Scene::start().await;
    scene.start_controllers();
    scene.start_scheduler();
    let mut kills = 0;
    {
        let mut scenario_numbers = Numbers::new(seed);
        let mut running = std::pin::pin!(scenario::run(&scene, &mut scenario_numbers));
        let mut moments = Numbers::new(seed + 1_000_000);
        loop {
            let pause = Duration::from_millis(moments.below(700));
            tokio::select! {
                () = &mut running => break,
                () = tokio::time::sleep(pause) => {}
            }
            scene.kill(&mut moments);
            kills += 1;
        }
    }
    // Kill a few more times while the controllers propagate the last changes.
    let mut moments = Numbers::new(seed + 2_000_000);
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(moments.below(900))).await;
        scene.kill(&mut moments);
        kills += 1;
    }
    (scene, kills)
}
