//! Expiry of Kubernetes Events: an event is removed when its lifetime after its last write is over.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::shared::Shared;
use crate::store::{NotDurable, TableName};
use crate::table_names::EVENTS;

/// Maximum time between two searches for expired events.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);

/// Removes expired events until the server stops.
pub(super) async fn expire(shared: Arc<Shared>, lifetime: Duration) {
    let table: TableName = EVENTS.into();
    loop {
        tokio::select! {
            () = shared.stopping.cancelled() => return,
            () = tokio::time::sleep(SWEEP_INTERVAL.min(lifetime)) => {}
        }
        if shared.store.refuses_writes() {
            continue;
        }
        let before = shared.store.mark();
        sweep(&shared, &table, lifetime);
        match shared.store.wait_durable_since(before).await {
            Ok(()) => {}
            // The store has undone the removals, so the events exist again and are indexed again.
            Err(NotDurable::Lost(_)) => shared.event_ages.load(&shared.store),
            Err(NotDurable::Closed(_)) => return,
        }
    }
}

fn sweep(shared: &Shared, table: &TableName, lifetime: Duration) {
    let lifetime = i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX);
    let begin = Timestamp::now().as_second().saturating_sub(lifetime);
    for (key, version) in shared.event_ages.take_older_than(begin) {
        let Some(event) = shared.store.get(table, &key) else {
            continue;
        };
        // This removal fails if the event was written again.
        drop(
            shared
                .store
                .remove(table, &key, version, &mut event.value()),
        );
    }
}
