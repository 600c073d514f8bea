//! Test of the names that the server generates.

use serde_json::{Value, json};

use crate::harness::objects::Objects;
use crate::harness::server;

/// Checks that a generated name starts with `generateName`, which may be shortened, and ends with a random suffix.
#[tokio::test]
async fn generated_names_are_distinct() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let long = "a".repeat(100);
    for (base, kept) in [("map-", "map-"), (long.as_str(), &long[..58])] {
        let object = json!({"metadata": {"generateName": base}});
        let [first, second] = [maps.create(&object).await, maps.create(&object).await];
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
        assert_ne!(name(&first), name(&second));
        for created in [&first, &second] {
            let suffix = name(created).strip_prefix(kept).unwrap().to_owned();
            let known = |c: char| "bcdfghjklmnpqrstvwxz2456789".contains(c);
            assert!(suffix.len() == 5 && suffix.chars().all(known), "{suffix}");
            assert_eq!(created["metadata"]["generateName"], base);
        }
    }
}
