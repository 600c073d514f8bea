//! Karmada's controllers with our scheduler.

use berth_test_requirements::needs;

use crate::program::{Side, karmada};
use crate::scene::Scene;
use crate::story;

#[needs(karmada)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn karmadas_controllers_do_what_our_scheduler_decides() {
    let folder = karmada();
    let scene = Scene::start(&Side::Ours, &Side::Theirs(folder)).await;
    story::told(&scene, "karmada-controllers").await;
    scene.stop().await;
}
