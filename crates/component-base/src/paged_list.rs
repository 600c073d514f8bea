//! Paged lists: a large list is read in several requests, so that no response of the API server is too large.

use std::fmt::Debug;

use kube::api::{Api, ListParams, ObjectList};
use serde::de::DeserializeOwned;

/// Maximum number of objects in a response.
const PAGE_SIZE: u32 = 500;

/// Lists all objects of a kind.
///
/// # Errors
/// Fails if the API server refuses the request for a page.
pub async fn list_all<K>(api: &Api<K>) -> Result<Vec<K>, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    all_pages(|params| async move { api.list(&params).await }).await
}

/// Returns the objects of all pages of a list. `request_page` requests one page.
///
/// # Errors
/// Fails if the request for a page fails.
pub async fn all_pages<T, F>(request_page: impl Fn(ListParams) -> F) -> Result<Vec<T>, kube::Error>
where
    T: Clone,
    F: Future<Output = Result<ObjectList<T>, kube::Error>>,
{
    let mut params = ListParams::default().limit(PAGE_SIZE);
    let mut objects = Vec::new();
    loop {
        let page = request_page(params.clone()).await?;
        objects.extend(page.items);
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => params = params.continue_token(&token),
            _ => return Ok(objects),
        }
    }
}
