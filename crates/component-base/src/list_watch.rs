//! A list followed by a watch, repeated for ever: the source of all cached objects in Berth's programs.
//!
//! ```text
//! list in pages ──> watch from the version of the list ──> watch from the last seen version ──> …
//!      ^                                                        │ version expired, or outage
//!      └────────────────────────────────────────────────────────┘
//! ```
//!
//! With [`Start::Stream`], a watch sends the list (WatchList in Kubernetes), which costs the server less.
//!
//! - **Lists are never old.** Each list is a consistent read: it has no `resourceVersion`, so a server may not answer
//!   from a cache that lags behind. An object that is missing from a list is therefore deleted.
//! - **[`Event::Init`] follows the first page.** A list whose first page fails emits nothing. A streamed list that fails
//!   begins with another [`Event::Init`].
//! - **Each failure lengthens the pause** before the next request, up to [`Config::longest_pause`]. Only a watch that
//!   has worked for a while resets the pause.
//! - **Unexpected responses are failures:** a redirect, a response that is not JSON, a line that is no event, and a
//!   watch that ends at once.
//! - **Failures are logged here**, a repeated failure after growing pauses. Callers need not log them.
//!
//! No other code repeats a watch: `e2e/tests/layers/watches.rs` checks this.

mod backoff;
mod budget;
mod connection;
mod error;
mod failure_log;
mod lines;
mod objects;
mod request;
mod streamed_list;

use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use kube::ResourceExt as _;
use kube::api::{Api, WatchEvent};
use kube::runtime::watcher::Event;
use serde::de::DeserializeOwned;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use self::backoff::Backoff;
use self::budget::Account;
pub use self::budget::{Budget, Limits};
pub use self::connection::{Connection, Failure, Reports};
pub use self::error::Error;
use self::failure_log::FailureLog;
use self::lines::Line;
pub use self::objects::{Listing, ObjectEvent, objects};
use self::request::{PageSize, Requests, Watch};

/// Duration of a watch request, unless the configuration has another one.
const WATCH: Duration = Duration::from_secs(290);
/// Maximum pause between two requests, unless the configuration has another one.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Pause after a list or watch that exceeded the limits of its server.
const PAUSE_BEYOND_LIMITS: Duration = Duration::from_mins(5);
/// Version of a watch that begins with the current objects.
const CURRENT_OBJECTS: &str = "0";
/// A watch that has delivered an event is healthy after this time.
const HEALTHY: Duration = Duration::from_secs(1);
/// A watch without any event is healthy after this time, or when it has lasted as long as requested.
const HEALTHY_IF_SILENT: Duration = Duration::from_secs(10);
/// Time after the requested end of a watch at which a connection without events counts as broken.
const SILENCE: Duration = Duration::from_secs(5);

/// The way in which a watch continues after an outage of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterOutage {
    /// Continue from the last resource version.
    Resume,
    /// List the objects again. A member may return at the same address empty or restored from a backup. A watch from
    /// the last resource version would then report no event.
    List,
}

/// The first request, and the first request after the server refused to continue a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// A list.
    List,
    /// A watch that sends the list first. A server that refuses such a watch, or does not end the list, is listed.
    Stream,
    /// A watch that begins with the current objects, for callers without the permission to list. It reports no deletion
    /// between two watches, and emits neither [`Event::Init`] nor [`Event::InitDone`]. Its failures are logged at debug
    /// level only, because such a caller must work without the watch, too.
    Watch,
}

/// The selection of objects, and the behaviour after failures.
#[derive(Clone, Debug)]
pub struct Config {
    /// Selects objects by their labels.
    pub labels: Option<String>,
    /// Selects objects by their fields.
    pub fields: Option<String>,
    /// The first request.
    pub start: Start,
    /// Duration of each watch request, in whole seconds.
    pub watch: Duration,
    /// Maximum pause between two requests.
    pub longest_pause: Duration,
    /// The way in which a watch continues after an outage.
    pub after_outage: AfterOutage,
    /// The limits of the server, and its name in log lines. Without a budget, the server is trusted.
    pub budget: Option<Budget>,
    /// The receiver of the state of the connection.
    pub reports: Reports,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            labels: None,
            fields: None,
            start: Start::List,
            watch: WATCH,
            longest_pause: LONGEST_PAUSE,
            after_outage: AfterOutage::Resume,
            budget: None,
            reports: Reports::default(),
        }
    }
}

/// Lists and watches objects for ever. After an error, the next poll of the stream waits and tries again.
pub fn events<K>(api: Api<K>, config: Config) -> BoxStream<'static, Result<Event<K>, Error>>
where
    K: kube::Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    weighed_events(api, config, |_, bytes| bytes)
}

/// Lists and watches objects like [`events`]. `weigh` returns the number of bytes that the caller keeps of an object,
/// whose JSON form has the given size. The budget counts these bytes.
pub fn weighed_events<K>(
    api: Api<K>,
    config: Config,
    weigh: fn(&K, usize) -> usize,
) -> BoxStream<'static, Result<Event<K>, Error>>
where
    K: kube::Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let url = api.resource_url().to_owned();
    let server = config
        .budget
        .as_ref()
        .map(|budget| budget.name().to_owned());
    let list_watch = ListWatch {
        backoff: Backoff::new(config.longest_pause),
        log: FailureLog::new(url.clone(), server, config.start),
        account: config.budget.as_ref().map(Budget::account),
        requests: Requests::new(api.into_client(), url, &config),
        page_size: PageSize::default(),
        streams: config.start == Start::Stream,
        state: State::Unlisted,
        pause: Duration::ZERO,
        config,
        weigh,
    };
    let next = async |mut list_watch: ListWatch<K>| Some((list_watch.next().await, list_watch));
    stream::unfold(list_watch, next).boxed()
}

struct ListWatch<K> {
    config: Config,
    requests: Requests,
    weigh: fn(&K, usize) -> usize,
    page_size: PageSize,
    /// True if the server is asked to stream the list. False after a refusal.
    streams: bool,
    account: Option<Account>,
    backoff: Backoff,
    log: FailureLog,
    /// Pause before the next request.
    pause: Duration,
    state: State<K>,
}

enum State<K> {
    /// The objects must be listed, or watched from the start.
    Unlisted,
    /// A page of the list was received.
    Page(Page<K>),
    /// A watch sends the list.
    Streaming(Watch),
    /// The next watch starts at this version.
    Listed(String),
    Watching {
        version: String,
        watch: Watch,
        since: Instant,
        has_delivered: bool,
    },
}

struct Page<K> {
    objects: std::vec::IntoIter<K>,
    bytes_per_object: usize,
    next: NextPage,
    /// Permit to keep the page in memory, which limits the pages of a server that are in memory at the same time.
    permit: Option<OwnedSemaphorePermit>,
}

enum NextPage {
    Continue(String),
    /// The page was the last one of the list of this version.
    End(String),
}

impl<K> ListWatch<K>
where
    K: kube::Resource + Clone + DeserializeOwned,
{
    async fn next(&mut self) -> Result<Event<K>, Error> {
        loop {
            if !self.pause.is_zero() {
                tokio::time::sleep(self.pause).await;
                self.pause = Duration::ZERO;
            }
            match self.step().await {
                Ok(Some(event)) => return Ok(event),
                Ok(None) => {}
                Err(error) => {
                    self.pause = match error {
                        Error::Limit(_) => PAUSE_BEYOND_LIMITS,
                        // The watch continues with the next event.
                        Error::Object(_) => Duration::ZERO,
                        _ => self.backoff.next(),
                    };
                    self.log.failed(&error, self.backoff.failures());
                    // An object that cannot be decoded does not end the watch.
                    if !matches!(error, Error::Object(_)) {
                        self.config.reports.failed(&error);
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Advances the state. Sends at most one request.
    async fn step(&mut self) -> Result<Option<Event<K>>, Error> {
        // After a failed step, the objects are listed again, unless the step sets another state.
        match std::mem::replace(&mut self.state, State::Unlisted) {
            State::Unlisted if self.config.start == Start::Watch => {
                self.state = State::Listed(CURRENT_OBJECTS.to_owned());
                Ok(None)
            }
            State::Unlisted if self.streams => match self.requests.stream().await {
                Ok(watch) => {
                    self.config.reports.works();
                    self.begin_list();
                    self.state = State::Streaming(watch);
                    Ok(Some(Event::Init))
                }
                Err(error) if error.refuses_streams() => {
                    self.streams = false;
                    Ok(None)
                }
                Err(error) => Err(error),
            },
            State::Unlisted => {
                let page = self.page(None).await?;
                self.config.reports.works();
                self.begin_list();
                self.state = State::Page(page);
                Ok(Some(Event::Init))
            }
            State::Page(page) => self.next_of_page(page).await,
            State::Streaming(watch) => self.next_of_stream(watch).await,
            State::Listed(version) => {
                match self.requests.watch(&version).await {
                    Ok(watch) => {
                        self.config.reports.works();
                        self.state = State::Watching {
                            version,
                            watch,
                            since: Instant::now(),
                            has_delivered: false,
                        };
                    }
                    Err(error) => return Err(self.resume(version, error)),
                }
                Ok(None)
            }
            State::Watching {
                version,
                watch,
                since,
                has_delivered,
            } => {
                self.next_of_watch(version, watch, since, has_delivered)
                    .await
            }
        }
    }

    /// Requests a page of the list.
    async fn page(&mut self, token: Option<&str>) -> Result<Page<K>, Error> {
        let budget = self.config.budget.as_ref();
        let list = self.requests.list::<K>(token, self.page_size, budget).await;
        let (list, bytes, permit) = match list {
            Ok(list) => list,
            Err(error) => {
                if error.is_too_large() {
                    self.page_size.shrink();
                }
                return Err(error);
            }
        };
        let version = list.metadata.resource_version.filter(|v| !v.is_empty());
        let token = list.metadata.continue_.filter(|token| !token.is_empty());
        let next = match (token, version) {
            (Some(token), _) => NextPage::Continue(token),
            (None, Some(version)) => NextPage::End(version),
            (None, None) => return Err(Error::NoVersion),
        };
        Ok(Page {
            bytes_per_object: bytes / list.items.len().max(1),
            objects: list.items.into_iter(),
            next,
            permit,
        })
    }

    async fn next_of_page(&mut self, mut page: Page<K>) -> Result<Option<Event<K>>, Error> {
        if let Some(object) = page.objects.next() {
            self.charge(&object, page.bytes_per_object)?;
            self.state = State::Page(page);
            return Ok(Some(Event::InitApply(object)));
        }
        match page.next {
            NextPage::Continue(token) => {
                // The permit of this page is released before the next page needs one.
                drop(page.permit);
                self.state = State::Page(self.page(Some(&token)).await?);
                Ok(None)
            }
            NextPage::End(version) => {
                self.end_list();
                self.state = State::Listed(version);
                Ok(Some(Event::InitDone))
            }
        }
    }

    fn begin_list(&mut self) {
        if let Some(account) = &mut self.account {
            account.begin_list();
        }
    }

    fn end_list(&mut self) {
        if let Some(account) = &mut self.account {
            account.end_list();
        }
    }

    async fn next_of_watch(
        &mut self,
        version: String,
        mut watch: Watch,
        since: Instant,
        has_delivered: bool,
    ) -> Result<Option<Event<K>>, Error> {
        let line = match tokio::time::timeout(self.config.watch + SILENCE, watch.next::<K>()).await
        {
            Ok(line) => line,
            Err(_) => Some(Err(Error::Silent)),
        };
        let lived = since.elapsed();
        let line_bytes = watch.line_bytes();
        let watching = |version| State::Watching {
            version,
            watch,
            since,
            has_delivered: true,
        };
        let ended = match line {
            Some(Ok(Line::Event(WatchEvent::Bookmark(bookmark)))) => {
                self.state = watching(bookmark.metadata.resource_version);
                return Ok(None);
            }
            Some(Ok(Line::Event(WatchEvent::Added(object) | WatchEvent::Modified(object)))) => {
                let version = object.resource_version().filter(|v| !v.is_empty());
                let version = version.ok_or(Error::NoVersion)?;
                self.charge(&object, line_bytes)?;
                self.state = watching(version);
                return Ok(Some(Event::Apply(object)));
            }
            Some(Ok(Line::Event(WatchEvent::Deleted(object)))) => {
                let version = object.resource_version().filter(|v| !v.is_empty());
                let version = version.ok_or(Error::NoVersion)?;
                self.refund(&object);
                self.state = watching(version);
                return Ok(Some(Event::Delete(object)));
            }
            Some(Ok(Line::Unreadable(error, newer))) => {
                self.state = watching(newer.unwrap_or(version));
                return Err(error);
            }
            Some(Ok(Line::Event(WatchEvent::Error(status)))) => {
                Some(Error::Watch(kube::Error::Api(status)))
            }
            Some(Err(error)) => Some(error),
            None => None,
        };
        let is_healthy = if has_delivered {
            lived >= HEALTHY
        } else {
            // A server may end a watch a little early.
            lived >= HEALTHY_IF_SILENT.min(self.config.watch.mul_f32(0.9))
        };
        if is_healthy {
            self.backoff.reset();
            self.log.recovered();
        }
        match ended {
            Some(error) => Err(self.resume(version, error)),
            None if is_healthy => {
                self.state = State::Listed(version);
                Ok(None)
            }
            None => Err(self.resume(version, Error::Ended(lived))),
        }
    }

    /// Sets the state after a failed watch: a watch from the last version, or a new list.
    fn resume(&mut self, version: String, error: Error) -> Error {
        let lists = error.is_refused()
            || self.config.after_outage == AfterOutage::List && error.is_outage();
        if !lists {
            self.state = State::Listed(version);
        }
        error
    }

    fn refund(&mut self, object: &K) {
        if let Some(account) = &mut self.account {
            account.refund(object.meta());
        }
    }

    fn charge(&mut self, object: &K, bytes: usize) -> Result<(), Error> {
        if let Some(account) = &mut self.account {
            let bytes = (self.weigh)(object, bytes);
            account.charge(object.meta(), bytes).map_err(Error::Limit)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
