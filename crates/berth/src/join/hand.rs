//! One of the two servers: what is done there, and what is told of it.

use std::fmt::Debug;
use std::io::Write as _;

use berth_apimachinery::api_error::api_error_message;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Who writes.
const MANAGER: &str = "berth-join";

/// Why a cluster did not become a member, or did not cease to be one.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing}: {}", api_error_message(.source))]
pub struct JoinError {
    doing: String,
    source: Box<kube::Error>,
}

impl JoinError {
    /// What could not be done, and why not.
    pub(crate) fn new(doing: impl Into<String>, source: kube::Error) -> Self {
        Self {
            doing: doing.into(),
            source: Box::new(source),
        }
    }
}

/// What a person hears of what is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    /// Nothing.
    Nothing,
    /// Each object.
    Everything,
    /// Each object, and nothing is done.
    DryRun,
}

/// One of the two servers.
pub(crate) struct Hand<'a> {
    pub(crate) client: &'a Client,
    /// How it is called in messages.
    place: String,
    telling: Telling,
}

impl<'a> Hand<'a> {
    pub(crate) fn new(client: &'a Client, place: &str, telling: Telling) -> Self {
        Self {
            client,
            place: place.to_owned(),
            telling,
        }
    }

    /// Whether nothing is to be written.
    pub(crate) fn only_looks(&self) -> bool {
        self.telling == Telling::DryRun
    }

    /// How it is called in messages.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Creates an object, or brings what is ours of it up to date. In a dry run it comes back as it was given.
    pub(crate) async fn apply<K>(&self, api: &Api<K>, object: K) -> Result<K, JoinError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
    {
        let (name, what) = (object.name_any(), title(&object));
        let failed = |error| JoinError::new(format!("create {what} in {}", self.place), error);
        if self.telling == Telling::Nothing {
            return self.write(api, &name, &object).await.map_err(failed);
        }
        let known = api.get_metadata_opt(&name).await.map_err(failed)?;
        if self.only_looks() {
            let how = if known.is_some() { "kept" } else { "created" };
            self.tell(&what, &format!("{how} (dry run)"));
            return Ok(object);
        }
        let written = self.write(api, &name, &object).await.map_err(failed)?;
        let how = match known {
            None => "created",
            Some(known) if known.resource_version() == written.resource_version() => "unchanged",
            Some(_) => "configured",
        };
        self.tell(&what, how);
        Ok(written)
    }

    async fn write<K>(&self, api: &Api<K>, name: &str, object: &K) -> Result<K, kube::Error>
    where
        K: Clone + Debug + DeserializeOwned + Serialize,
    {
        let parameters = PatchParams::apply(MANAGER).force();
        api.patch(name, &parameters, &Patch::Apply(object)).await
    }

    /// Reads the metadata of an object, if it is there.
    pub(crate) async fn metadata<K>(
        &self,
        api: &Api<K>,
        name: &str,
    ) -> Result<Option<ObjectMeta>, JoinError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let read = api.get_metadata_opt(name).await.map_err(|error| {
            let what = format!("{} {name}", K::kind(&()));
            JoinError::new(format!("read {what} in {}", self.place), error)
        })?;
        Ok(read.map(|object| object.metadata))
    }

    /// Deletes an object if it is there.
    pub(crate) async fn delete<K>(&self, api: &Api<K>, name: &str) -> Result<(), JoinError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let what = format!("{} {name}", K::kind(&()));
        let failed = |error| JoinError::new(format!("delete {what} in {}", self.place), error);
        if self.only_looks() {
            if api.get_metadata_opt(name).await.map_err(failed)?.is_some() {
                self.tell(&what, "deleted (dry run)");
            }
            return Ok(());
        }
        match api.delete(name, &DeleteParams::background()).await {
            Ok(_) => self.tell(&what, "deleted"),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(failed(error)),
        }
        Ok(())
    }

    /// Says something of an object.
    pub(crate) fn tell(&self, what: &str, how: &str) {
        if self.telling != Telling::Nothing {
            // Who does not listen misses it.
            let _ = writeln!(std::io::stdout(), "{}: {what} {how}", self.place);
        }
    }
}

/// Kind, and namespace and name of an object.
fn title<K: Resource<DynamicType = ()>>(object: &K) -> String {
    let kind = K::kind(&());
    match object.namespace() {
        Some(namespace) => format!("{kind} {namespace}/{}", object.name_any()),
        None => format!("{kind} {}", object.name_any()),
    }
}
