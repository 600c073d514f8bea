//! Events live for a while after they were last written.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::clock;
use crate::shared::Shared;
use crate::store::TableName;

/// Between two sweeps, unless events live for less than that.
const SWEEP: Duration = Duration::from_mins(1);

pub(super) async fn expire(shared: Arc<Shared>, lifetime: Duration) {
    let table: TableName = "events".into();
    loop {
        tokio::select! {
            () = shared.stopping.cancelled() => return,
            () = tokio::time::sleep(SWEEP.min(lifetime)) => sweep(&shared, &table, lifetime),
        }
        if shared.store.kept(shared.store.version()).await.is_err() {
            return;
        }
    }
}

fn sweep(shared: &Shared, table: &TableName, lifetime: Duration) {
    for object in shared.store.list(table, None).items {
        let mut value = object.value();
        if idle(&value).is_some_and(|idle| idle > lifetime) {
            // A write in between gives the event another life.
            drop(
                shared
                    .store
                    .remove(table, &object.key, object.version, &mut value),
            );
        }
    }
}

/// How long ago the event was written, as far as the server itself has noted. What the event says of when it
/// happened does not count: whoever sends it can make that up.
fn idle(event: &Value) -> Option<Duration> {
    let meta = &event["metadata"];
    let managers = meta["managedFields"].as_array().into_iter().flatten();
    let seconds = managers
        .map(|manager| &manager["time"])
        .chain([&meta["creationTimestamp"]])
        .filter_map(|time| clock::seconds_since(time.as_str()?))
        .min()?;
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_latest_write_counts_and_not_what_the_event_says() {
        let hours_ago = |hours: i64| {
            let at = jiff::Timestamp::now().as_second() - hours * 3600;
            jiff::Timestamp::from_second(at).unwrap().to_string()
        };
        let mut event = json!({
            "metadata": {"creationTimestamp": hours_ago(5), "managedFields": [{"time": hours_ago(4)}]},
            "lastTimestamp": hours_ago(-100),
        });
        let hours = |event: &Value| idle(event).unwrap().as_secs() / 3600;
        assert_eq!(hours(&event), 4);
        event["metadata"]["managedFields"] = json!([]);
        assert_eq!(hours(&event), 5);
    }
}
