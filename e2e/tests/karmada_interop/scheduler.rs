//! The scenario with Karmada's scheduler and Berth's controllers. For comparison, another test runs the scenario with
//! Berth's programs only.

use berth_test_requirements::needs;

use crate::program::{Provider, karmada_programs};
use crate::scenario;
use crate::scene::Scene;

#[needs(karmada)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn berths_controllers_carry_out_decisions_of_karmadas_scheduler() {
    let folder = karmada_programs();
    let scene = Box::pin(Scene::start(&Provider::Karmada(folder), &Provider::Berth)).await;
    scenario::run(&scene, "karmada-scheduler").await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn berths_scheduler_and_controllers_pass_the_same_scenario() {
    let scene = Box::pin(Scene::start(&Provider::Berth, &Provider::Berth)).await;
    scenario::run(&scene, "berth").await;
    scene.stop().await;
}
