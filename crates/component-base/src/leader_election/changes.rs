//! A watch of a Lease. A standby uses the watch to notice changes of the Lease early. If the watch fails, the standby
//! still reads the Lease periodically.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use kube::runtime::watcher::Event;

use crate::list_watch::{self, Config, Error, Start};

/// Maximum pause after a failed watch. A retry may fail again, because the permission to watch may be missing.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A watch of one Lease, which is restarted after errors.
pub(super) struct Changes {
    events: BoxStream<'static, Result<Event<Lease>, Error>>,
    /// True if the watch has delivered an event since its last failure.
    are_watched: bool,
}

impl Changes {
    pub(super) fn of(api: Api<Lease>, name: &str) -> Self {
        let config = Config {
            fields: Some(format!("metadata.name={name}")),
            start: Start::Watch,
            longest_pause: LONGEST_PAUSE,
            ..Config::default()
        };
        Self {
            events: list_watch::events(api, config),
            are_watched: false,
        }
    }

    /// Reports whether the watch is running.
    pub(super) fn are_watched(&self) -> bool {
        self.are_watched
    }

    /// Waits for the next event of the watch. Returns the Lease, or `None` if the Lease was deleted. This function is
    /// cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Lease> {
        while let Some(event) = self.events.next().await {
            self.are_watched = event.is_ok();
            match event {
                Ok(Event::Apply(lease) | Event::InitApply(lease)) => return Some(lease),
                Ok(Event::Delete(_)) => return None,
                Ok(Event::Init | Event::InitDone) | Err(_) => {}
            }
        }
        std::future::pending().await
    }
}
