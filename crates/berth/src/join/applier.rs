//! A client for the objects that joining and unjoining write, in the control plane or in the member. It prints a line
//! for each written object.

use std::fmt::Debug;
use std::io::Write as _;

use berth_apimachinery::api_error::api_error_message;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::field_changes;

/// Namespace whose UID is the id of a cluster.
const KUBE_SYSTEM: &str = "kube-system";
/// Field manager of the writes.
const MANAGER: &str = "berth-join";

/// A failed request to the control plane or to the member.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing}: {}", api_error_message(.source))]
pub struct JoinError {
    doing: String,
    source: Box<kube::Error>,
}

impl JoinError {
    /// Creates an error for the action `doing`, such as `create Cluster member1`.
    pub(crate) fn new(doing: impl Into<String>, source: kube::Error) -> Self {
        Self {
            doing: doing.into(),
            source: Box::new(source),
        }
    }
}

/// The mode of an [`Applier`], which determines whether the applier writes and whether it prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Writes without output.
    Quiet,
    /// Writes, and prints a line for each object.
    Verbose,
    /// Prints a line for each object, and writes nothing.
    DryRun,
}

/// A client for the control plane or for the member.
pub(crate) struct Applier<'a> {
    pub(crate) client: &'a Client,
    /// Name of the server in messages.
    server_name: String,
    mode: Mode,
}

impl<'a> Applier<'a> {
    pub(crate) fn new(client: &'a Client, server_name: &str, mode: Mode) -> Self {
        Self {
            client,
            server_name: server_name.to_owned(),
            mode,
        }
    }

    /// Returns the id of the cluster, which is the UID of its namespace `kube-system`.
    pub(crate) async fn cluster_id(&self) -> Result<String, JoinError> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let system = namespaces.get(KUBE_SYSTEM).await.map_err(|error| {
            let server = self.server_name();
            JoinError::new(format!("read the id of the cluster in {server}"), error)
        })?;
        Ok(system.uid().unwrap_or_default())
    }

    /// Reports whether the applier skips writes.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.mode == Mode::DryRun
    }

    /// Returns the name of the server in messages.
    pub(crate) fn server_name(&self) -> &str {
        &self.server_name
    }

    /// Applies an object with server-side apply. In a dry run, returns the object unchanged.
    pub(crate) async fn apply<K>(&self, api: &Api<K>, object: K) -> Result<K, JoinError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
    {
        let (name, what) = (object.name_any(), title(&object));
        let failed =
            |error| JoinError::new(format!("create {what} in {}", self.server_name), error);
        if self.mode == Mode::Quiet {
            return self.write(api, &name, &object).await.map_err(failed);
        }
        if self.is_dry_run() {
            let existing = api.get_opt(&name).await.map_err(failed)?;
            self.report_dry_run(api, &object, existing)
                .await
                .map_err(failed)?;
            return Ok(object);
        }
        let existing = api.get_metadata_opt(&name).await.map_err(failed)?;
        let written = self.write(api, &name, &object).await.map_err(failed)?;
        let result = match existing {
            None => "created",
            Some(existing) if existing.resource_version() == written.resource_version() => {
                "unchanged"
            }
            Some(_) => "configured",
        };
        self.report(&what, result);
        Ok(written)
    }

    /// Prints the changes that an apply would make to an object.
    async fn report_dry_run<K>(
        &self,
        api: &Api<K>,
        object: &K,
        existing: Option<K>,
    ) -> Result<(), kube::Error>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
    {
        let what = title(object);
        let Some(existing) = existing else {
            self.report(&what, "created (dry run)");
            return Ok(());
        };
        let parameters = PatchParams::apply(MANAGER).force().dry_run();
        let patch = Patch::Apply(object);
        let after = api.patch(&object.name_any(), &parameters, &patch).await?;
        let changes =
            field_changes::describe(&existing, &after).map_err(kube::Error::SerdeError)?;
        if changes.is_empty() {
            self.report(&what, "unchanged (dry run)");
            return Ok(());
        }
        self.report(&what, "configured (dry run)");
        for change in changes {
            // The command continues after stdout is closed.
            let _ = writeln!(std::io::stdout(), "  {change}");
        }
        Ok(())
    }

    async fn write<K>(&self, api: &Api<K>, name: &str, object: &K) -> Result<K, kube::Error>
    where
        K: Clone + Debug + DeserializeOwned + Serialize,
    {
        let parameters = PatchParams::apply(MANAGER).force();
        api.patch(name, &parameters, &Patch::Apply(object)).await
    }

    /// Reads the metadata of an object. Returns `None` if the object does not exist.
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
            JoinError::new(format!("read {what} in {}", self.server_name), error)
        })?;
        Ok(read.map(|object| object.metadata))
    }

    /// Deletes an object if it exists.
    pub(crate) async fn delete<K>(&self, api: &Api<K>, name: &str) -> Result<(), JoinError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let what = format!("{} {name}", K::kind(&()));
        let failed =
            |error| JoinError::new(format!("delete {what} in {}", self.server_name), error);
        if self.is_dry_run() {
            if api.get_metadata_opt(name).await.map_err(failed)?.is_some() {
                self.report(&what, "deleted (dry run)");
            }
            return Ok(());
        }
        match api.delete(name, &DeleteParams::background()).await {
            Ok(_) => self.report(&what, "deleted"),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(failed(error)),
        }
        Ok(())
    }

    /// Prints the result for an object, unless the mode is quiet.
    pub(crate) fn report(&self, what: &str, result: &str) {
        if self.mode != Mode::Quiet {
            // The command continues after stdout is closed.
            let _ = writeln!(std::io::stdout(), "{}: {what} {result}", self.server_name);
        }
    }
}

/// Returns the kind, the namespace and the name of an object, for messages.
fn title<K: Resource<DynamicType = ()>>(object: &K) -> String {
    let kind = K::kind(&());
    match object.namespace() {
        Some(namespace) => format!("{kind} {namespace}/{}", object.name_any()),
        None => format!("{kind} {}", object.name_any()),
    }
}
