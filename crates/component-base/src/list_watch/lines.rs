//! The lines of a watch. Each line contains one event.

use http_body_util::BodyExt as _;
use kube::api::WatchEvent;
use kube::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Error;

/// Maximum length of a line, in bytes. An API server stores no object that is larger.
const MAX_LINE: usize = 16 << 20;
/// Length of the excerpt of a line in an error.
const EXCERPT: usize = 100;

/// A line of a watch.
#[derive(Debug)]
pub(super) enum Line<K> {
    Event(WatchEvent<K>),
    /// An event whose object cannot be decoded, and the version of the object.
    Unreadable(Error, Option<String>),
}

/// Splits a response into lines.
#[derive(Debug)]
pub(super) struct Lines {
    body: Body,
    /// Received bytes. The first `taken` bytes are the last line.
    buffer: Vec<u8>,
    taken: usize,
    /// Number of bytes after `taken` that contain no line break.
    searched: usize,
}

impl Lines {
    pub(super) fn new(body: Body) -> Self {
        Self {
            body,
            buffer: Vec::new(),
            taken: 0,
            searched: 0,
        }
    }

    /// Returns the next line, or `None` at the end of the response. A last line without a line break is incomplete, and
    /// is dropped.
    pub(super) async fn next(&mut self) -> Option<Result<&[u8], Error>> {
        loop {
            let rest = &self.buffer[self.taken..];
            if let Some(at) = rest[self.searched..].iter().position(|byte| *byte == b'\n') {
                let start = self.taken;
                let end = start + self.searched + at;
                self.taken = end + 1;
                self.searched = 0;
                return Some(Ok(&self.buffer[start..end]));
            }
            self.searched = rest.len();
            if self.searched > MAX_LINE {
                let reason = format!("a line of the watch is longer than {} MiB", MAX_LINE >> 20);
                return Some(Err(Error::NotKubernetes(reason)));
            }
            self.drop_taken();
            match self.body.frame().await? {
                Ok(frame) => {
                    if let Some(data) = frame.data_ref() {
                        self.buffer.extend_from_slice(data);
                    }
                }
                // A server or a load balancer that closes the connection ends the watch.
                Err(error) if is_end_of_connection(&error) => return None,
                Err(error) => {
                    let error = kube::Error::ReadEvents(std::io::Error::other(error));
                    return Some(Err(Error::Watch(error)));
                }
            }
        }
    }

    fn drop_taken(&mut self) {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        // A large event must not occupy its memory until the watch ends.
        if self.buffer.capacity() > 1 << 16 && self.buffer.len() < self.buffer.capacity() / 4 {
            self.buffer.shrink_to(1 << 16);
        }
    }
}

/// Reports whether the connection was closed within the response.
fn is_end_of_connection(error: &kube::Error) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<std::io::Error>()
            && error.kind() == std::io::ErrorKind::UnexpectedEof
        {
            return true;
        }
        if error.to_string().contains("unexpected EOF during chunk") {
            return true;
        }
        next = error.source();
    }
    false
}

/// The parts of an event that every event has.
#[derive(Deserialize)]
struct AnyEvent {
    #[serde(rename = "type")]
    kind: String,
    object: AnyObject,
}

#[derive(Deserialize)]
struct AnyObject {
    #[serde(default)]
    metadata: AnyMetadata,
}

#[derive(Default, Deserialize)]
struct AnyMetadata {
    #[serde(rename = "resourceVersion")]
    version: Option<String>,
}

/// Parses a line.
pub(super) fn parse<K: DeserializeOwned>(line: &[u8]) -> Result<Line<K>, Error> {
    let error = match serde_json::from_slice(line) {
        Ok(event) => return Ok(Line::Event(event)),
        Err(error) => error,
    };
    match serde_json::from_slice::<AnyEvent>(line) {
        Ok(event) if matches!(&*event.kind, "ADDED" | "MODIFIED" | "DELETED") => {
            let version = event.object.metadata.version;
            Ok(Line::Unreadable(Error::Object(error), version))
        }
        _ => Err(not_an_event(line)),
    }
}

fn not_an_event(line: &[u8]) -> Error {
    if let Ok(status) = serde_json::from_slice::<kube::core::Status>(line)
        && status.code >= 400
    {
        return Error::Watch(kube::Error::Api(status.boxed()));
    }
    let text = String::from_utf8_lossy(&line[..line.len().min(EXCERPT)]);
    Error::NotKubernetes(format!("a line of the watch is not an event: {text}"))
}
