//! The scenario with Karmada's controllers and Berth's scheduler.

use berth_test_requirements::needs;

use crate::program::{Provider, karmada_programs};
use crate::scenario;
use crate::scene::Scene;

#[needs(karmada)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn karmadas_controllers_carry_out_decisions_of_berths_scheduler() {
    let folder = karmada_programs();
    let scene = Box::pin(Scene::start(&Provider::Berth, &Provider::Karmada(folder))).await;
    scenario::run(&scene, "karmada-controllers").await;
    scene.stop().await;
}
