//! The requests of a list and a watch.

use http::header::{ACCEPT_ENCODING, CONTENT_TYPE};
use http::{HeaderValue, Response};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::api::{ListParams, ObjectList, WatchParams};
use kube::client::Body;
use kube::core::Status;
use serde::de::DeserializeOwned;
use tokio::sync::OwnedSemaphorePermit;

use super::lines::{Line, Lines, parse};
use super::{Budget, Config, Error};

/// Maximum length of an error response, in bytes. The rest is not read.
const MAX_ERROR: usize = 64 << 10;

/// The number of objects in a page of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageSize(u32);

impl Default for PageSize {
    fn default() -> Self {
        Self(500)
    }
}

impl PageSize {
    /// Makes the following pages smaller, because a page was too large.
    pub(super) fn shrink(&mut self) {
        self.0 = (self.0 / 10).max(5);
    }
}

/// The requests about the objects at one URL.
#[derive(Clone)]
pub(super) struct Requests {
    client: Client,
    request: kube::core::Request,
    list: ListParams,
    watch: WatchParams,
}

impl Requests {
    pub(super) fn new(client: Client, url: String, config: &Config) -> Self {
        let (label_selector, field_selector) = (config.labels.clone(), config.fields.clone());
        Self {
            client,
            request: kube::core::Request::new(url),
            list: ListParams {
                label_selector: label_selector.clone(),
                field_selector: field_selector.clone(),
                ..ListParams::default()
            },
            watch: WatchParams {
                label_selector,
                field_selector,
                timeout: Some(u32::try_from(config.watch.as_secs()).unwrap_or(u32::MAX)),
                ..WatchParams::default()
            },
        }
    }

    /// Requests a page of the list. Also returns the size of the response, and the permit to keep it in memory.
    pub(super) async fn list<K>(
        &self,
        token: Option<&str>,
        size: PageSize,
        budget: Option<&Budget>,
    ) -> Result<(ObjectList<K>, usize, Option<OwnedSemaphorePermit>), Error>
    where
        K: Clone + DeserializeOwned,
    {
        let parameters = ListParams {
            limit: Some(size.0),
            continue_token: token.map(str::to_owned),
            ..self.list.clone()
        };
        let request = self.request.list(&parameters);
        let request = request.map_err(|error| Error::List(kube::Error::BuildRequest(error)))?;
        let response = self.client.send(request.map(Body::from)).await;
        let response = checked(response.map_err(Error::List)?, Error::List).await?;
        // A list whose response has not begun must not delay the lists of other kinds.
        let permit = match budget {
            Some(budget) => budget.page_permit().await,
            None => None,
        };
        let body = response.into_body().collect().await;
        let body = body.map_err(Error::List)?.to_bytes();
        let list = serde_json::from_slice(&body);
        let list = list.map_err(|error| Error::List(kube::Error::SerdeError(error)))?;
        Ok((list, body.len(), permit))
    }

    /// Starts a watch at a version.
    pub(super) async fn watch(&self, version: &str) -> Result<Watch, Error> {
        self.start_watch(&self.watch, version).await
    }

    /// Starts a watch that first sends the current objects, as a consistent read.
    pub(super) async fn stream(&self) -> Result<Watch, Error> {
        let parameters = self.watch.clone().initial_events();
        self.start_watch(&parameters, "").await
    }

    async fn start_watch(&self, parameters: &WatchParams, version: &str) -> Result<Watch, Error> {
        let request = self.request.watch(parameters, version);
        let request = request.map_err(|error| Error::Watch(kube::Error::BuildRequest(error)))?;
        let mut request = request.map(Body::from);
        let identity = HeaderValue::from_static("identity");
        request.headers_mut().insert(ACCEPT_ENCODING, identity);
        let response = self.client.send(request).await.map_err(Error::Watch)?;
        let response = checked(response, Error::Watch).await?;
        Ok(Watch {
            lines: Lines::new(response.into_body()),
            line_bytes: 0,
        })
    }
}

/// A running watch.
#[derive(Debug)]
pub(super) struct Watch {
    lines: Lines,
    line_bytes: usize,
}

impl Watch {
    /// Returns the next event, or `None` at the end of the watch.
    pub(super) async fn next<K: DeserializeOwned>(&mut self) -> Option<Result<Line<K>, Error>> {
        loop {
            let line = match self.lines.next().await? {
                Ok(line) => line,
                Err(error) => return Some(Err(error)),
            };
            if !line.trim_ascii().is_empty() {
                let parsed = parse(line);
                self.line_bytes = line.len();
                return Some(parsed);
            }
        }
    }

    /// Returns the size of the last event.
    pub(super) fn line_bytes(&self) -> usize {
        self.line_bytes
    }
}

/// Returns a response of a Kubernetes API with status 200. Everything else is an error.
async fn checked(
    response: Response<Body>,
    refused: fn(kube::Error) -> Error,
) -> Result<Response<Body>, Error> {
    let status = response.status();
    if status.is_client_error() || status.is_server_error() {
        let mut text = Vec::new();
        let mut body = response.into_body();
        while let Some(Ok(frame)) = body.frame().await {
            text.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
            if text.len() > MAX_ERROR {
                break;
            }
        }
        let text = String::from_utf8_lossy(&text);
        let parsed = serde_json::from_str::<Status>(&text);
        let status = parsed.unwrap_or_else(|_| {
            let text: String = text.trim().chars().take(MAX_ERROR).collect();
            Status::failure(&text, "Failed to parse error data").with_code(status.as_u16())
        });
        return Err(refused(kube::Error::Api(status.boxed())));
    }
    let content_type = response.headers().get(CONTENT_TYPE);
    let content_type = content_type.map(|value| String::from_utf8_lossy(value.as_bytes()));
    let reason = match content_type {
        _ if status != 200 => format!("status {status}"),
        Some(kind) if !kind.starts_with("application/json") => format!("content type {kind}"),
        _ => return Ok(response),
    };
    Err(Error::NotKubernetes(reason))
}
