//! Events live for an hour.

use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use crate::shared::Shared;
use crate::store::TableName;

/// How long an event is kept, as by the default of a real server.
const TTL_SECONDS: i64 = 3600;
/// Between two sweeps.
const SWEEP: Duration = Duration::from_mins(1);

pub(super) async fn expire(shared: Arc<Shared>) {
    let table: TableName = "events".into();
    loop {
        tokio::select! {
            () = shared.stopping.cancelled() => return,
            () = tokio::time::sleep(SWEEP) => sweep(&shared, &table),
        }
    }
}

fn sweep(shared: &Shared, table: &TableName) {
    for object in shared.store.list(table, None).items {
        let mut value = object.value();
        let created = value["metadata"]["creationTimestamp"]
            .as_str()
            .and_then(clock::seconds_since);
        let seen = value["lastTimestamp"]
            .as_str()
            .and_then(clock::seconds_since);
        let age = seen.map_or(created, |s| Some(created.map_or(s, |c| c.min(s))));
        if age.is_some_and(|a| a > TTL_SECONDS) {
            // A write in between gives the event another hour.
            drop(
                shared
                    .store
                    .remove(table, &object.key, object.version, &mut value),
            );
        }
    }
}
