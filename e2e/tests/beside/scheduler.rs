//! Karmada's scheduler with our controllers.

use berth_test_requirements::needs;

use crate::program::{Side, karmada};
use crate::scene::Scene;
use crate::story;

#[needs(karmada)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_controllers_do_what_karmadas_scheduler_decides() {
    let folder = karmada();
    let scene = Scene::start(&Side::Theirs(folder), &Side::Ours).await;
    story::told(&scene, "karmada-scheduler").await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_parts_of_ours_as_programs_of_their_own_tell_the_same_story() {
    let scene = Scene::start(&Side::Ours, &Side::Ours).await;
    story::told(&scene, "berth").await;
    scene.stop().await;
}
