//! Several profiles in one process, each with its own name, plugins and voice.

use std::collections::BTreeSet;

use berth_scheduler::framework::Registry;
use serde_json::json;

use crate::scene::{Scene, everywhere};
use crate::spy::{Act, Book, register};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_answers_to_its_own_name_with_its_own_plugins() {
    let (book, mut registry) = (Book::default(), Registry::new());
    register(&mut registry, "A", &book, |_| Act::Pass);
    register(&mut registry, "B", &book, |_| Act::Pass);
    let with = |name: &str| json!({ "multiPoint": { "enabled": [{ "name": name }] } });
    let scene = Scene::start(
        registry,
        json!({ "profiles": [
            { "schedulerName": "one", "plugins": with("A") },
            { "schedulerName": "other", "plugins": with("B") },
        ] }),
    )
    .await;
    scene.bare.bind(&everywhere("nobodys", "third")).await;
    for (name, scheduler) in [("first", "one"), ("second", "other")] {
        assert_eq!(
            scene
                .place(&everywhere(name, scheduler))
                .await
                .unwrap()
                .len(),
            4
        );
    }
    let calls = book.calls();
    assert!(calls.contains(&"A.Reserve first".to_owned()));
    assert!(calls.contains(&"B.Reserve second".to_owned()));
    assert!(
        !calls.iter().any(|call| {
            call.starts_with("A.") && call.ends_with(" second")
                || call.starts_with("B.") && call.ends_with(" first")
                || call.ends_with(" nobodys")
        }),
        "{calls:?}"
    );
    for (name, scheduler) in [("first", "one"), ("second", "other")] {
        assert_eq!(sources(&scene, name).await, [scheduler]);
    }
    let nobodys = scene.bare.bindings("default").get("nobodys").await.unwrap();
    assert!(nobodys.spec.clusters.is_empty() && nobodys.status.is_none());
    scene.stop().await;
}

/// Who has said something of a binding or its template.
async fn sources(scene: &Scene, name: &str) -> Vec<String> {
    let mut names = BTreeSet::new();
    for event in scene.events(name).await {
        names.extend(event.source.and_then(|source| source.component));
        names.extend(event.reporting_component);
    }
    names.into_iter().collect()
}
