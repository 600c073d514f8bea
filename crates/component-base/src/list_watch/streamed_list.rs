//! A list that a watch sends: a line for each object, and a bookmark at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::api::WatchEvent;
use kube::runtime::watcher::Event;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::lines::Line;
use super::request::Watch;
use super::{Error, ListWatch, State};

/// Annotation of the bookmark at the end of a streamed list.
const LIST_ENDS: &str = "k8s.io/initial-events-end";
/// A server that pauses for this time within a streamed list is listed instead. A proxy may hide the end of the list.
const STREAM_PAUSE: Duration = Duration::from_secs(10);

impl<K> ListWatch<K>
where
    K: kube::Resource + Clone + DeserializeOwned,
{
    /// Reads a line of a streamed list.
    pub(super) async fn next_of_stream(
        &mut self,
        mut watch: Watch,
    ) -> Result<Option<Event<K>>, Error> {
        let line = tokio::time::timeout(STREAM_PAUSE, watch.next::<K>()).await;
        let Ok(Some(line)) = line else {
            self.streams = false;
            return Ok(None);
        };
        let event = match line? {
            Line::Event(WatchEvent::Bookmark(end)) if ends_list(&end.metadata.annotations) => {
                self.end_list();
                self.state = State::Watching {
                    version: end.metadata.resource_version,
                    watch,
                    since: Instant::now(),
                    has_delivered: true,
                };
                return Ok(Some(Event::InitDone));
            }
            Line::Event(WatchEvent::Bookmark(_)) => None,
            Line::Event(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                self.charge(&object, watch.line_bytes())?;
                Some(Event::InitApply(object))
            }
            Line::Event(WatchEvent::Deleted(object)) => {
                self.refund(&object);
                Some(Event::Delete(object))
            }
            Line::Event(WatchEvent::Error(status)) => {
                return Err(Error::Watch(kube::Error::Api(status)));
            }
            // Without this object, the list would report its deletion.
            Line::Unreadable(Error::Object(error), _) => {
                return Err(Error::List(kube::Error::SerdeError(error)));
            }
            Line::Unreadable(error, _) => return Err(error),
        };
        self.state = State::Streaming(watch);
        Ok(event)
    }
}

/// Reports whether a bookmark with these annotations ends a streamed list.
fn ends_list(annotations: &BTreeMap<String, String>) -> bool {
    annotations
        .get(LIST_ENDS)
        .is_some_and(|value| value == "true")
}
