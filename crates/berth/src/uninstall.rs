//! The command `berth uninstall`, which deletes the CustomResourceDefinitions of the control plane with their objects.
//!
//! Most of these objects have finalizers, which only the controllers remove. If the controllers no longer run, a deletion
//! of the definitions never ends. The command refuses such a deletion, or removes the finalizers on request.

use std::time::{Duration, Instant};

use berth_apimachinery::api_error::{api_error_message, has_code};
use berth_component_base::kube_client::{self, ConnectError, retry_requests};
use berth_component_base::paged_list::list_all;
use berth_component_base::user_agent::Component;
use clap::Args;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::control_plane::{ControlPlaneArgs, target};
use crate::output;

/// Interval between two checks for the end of the deletion.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum number of objects in a message.
const MAX_NAMED: usize = 5;

/// Flags of `berth uninstall`.
#[derive(Args, Clone, Debug)]
pub struct UninstallArgs {
    /// Remove the finalizers of all objects; the workloads stay in the members
    #[arg(long)]
    pub force: bool,

    /// Seconds to wait for the deletion
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub wait: u64,

    /// Report what would be deleted; nothing is written
    #[arg(long)]
    pub dry_run: bool,

    /// Flags that select the control plane.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,
}

/// An error of `berth uninstall`.
#[derive(Debug, thiserror::Error)]
pub enum UninstallError {
    /// The command cannot connect to the control plane.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Objects have finalizers.
    #[error(
        "objects with finalizers ({count}) would keep the API: {named}; only the controllers remove finalizers: delete workloads and policies and unjoin the members while the controllers run, or pass --force, which leaves the workloads in the members"
    )]
    InUse {
        /// Number of the objects.
        count: usize,
        /// The first of the objects.
        named: String,
    },
    /// Definitions still exist after the timeout.
    #[error("{named} still exists after {seconds} s: wait longer with --wait")]
    TimedOut {
        /// The definitions.
        named: String,
        /// Waiting time, in seconds.
        seconds: u64,
    },
    /// A request to the control plane failed.
    #[error("cannot {doing}: {}", api_error_message(.source))]
    Refused {
        /// The attempted action.
        doing: String,
        /// The error of the request.
        source: Box<kube::Error>,
    },
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Write(#[from] std::io::Error),
}

fn refused(doing: String) -> impl FnOnce(kube::Error) -> UninstallError {
    move |source| UninstallError::Refused {
        doing,
        source: Box::new(source),
    }
}

/// An object with finalizers.
struct HeldObject {
    api: Api<DynamicObject>,
    object: DynamicObject,
    kind: String,
}

impl HeldObject {
    fn describe(&self) -> String {
        let name = self.object.name_any();
        match self.object.namespace() {
            Some(namespace) => format!("{} {namespace}/{name}", self.kind),
            None => format!("{} {name}", self.kind),
        }
    }

    async fn release(&self) -> Result<(), UninstallError> {
        let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        let name = self.object.name_any();
        let patched = self
            .api
            .patch_metadata(&name, &PatchParams::default(), &patch)
            .await;
        match patched {
            Err(error) if !has_code(&error, 404) => Err(refused(format!(
                "remove the finalizers of {}",
                self.describe()
            ))(error)),
            _ => Ok(()),
        }
    }
}

/// Deletes the definitions, and waits until they are deleted.
///
/// # Errors
/// Fails if objects have finalizers and the flags do not allow their removal, if a definition still exists after the
/// timeout, or if a request fails.
pub async fn run(args: UninstallArgs) -> Result<(), UninstallError> {
    let selected = args.control_plane;
    let target = target(selected.kubeconfig, selected.karmada_context);
    let mut config = kube_client::config(&target).await?;
    retry_requests(&mut config);
    let client = kube_client::client(config, Component::CommandLine)?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut left = installed(&definitions).await?;
    let held = held_objects(&client, &left).await?;
    if !held.is_empty() && !args.force {
        let mut named: Vec<String> = held
            .iter()
            .take(MAX_NAMED)
            .map(HeldObject::describe)
            .collect();
        if held.len() > MAX_NAMED {
            named.push("…".to_owned());
        }
        return Err(UninstallError::InUse {
            count: held.len(),
            named: named.join(", "),
        });
    }
    if args.dry_run {
        for held in &held {
            output::print(&format!(
                "{} finalizers removed (dry run)\n",
                held.describe()
            ))?;
        }
        for definition in &left {
            let name = definition.name_any();
            output::print(&format!(
                "CustomResourceDefinition {name} deleted (dry run)\n"
            ))?;
        }
        return Ok(());
    }
    for definition in &left {
        let name = definition.name_any();
        match definitions.delete(&name, &DeleteParams::background()).await {
            Err(error) if !has_code(&error, 404) => {
                return Err(refused(format!("delete the definition {name}"))(error));
            }
            _ => output::print(&format!("CustomResourceDefinition {name} deleted\n"))?,
        }
    }
    let end = Instant::now() + Duration::from_secs(args.wait);
    loop {
        if args.force {
            for held in held_objects(&client, &left).await? {
                held.release().await?;
            }
        }
        left = installed(&definitions).await?;
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= end {
            let named: Vec<String> = left.iter().map(ResourceExt::name_any).collect();
            return Err(UninstallError::TimedOut {
                named: named.join(", "),
                seconds: args.wait,
            });
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Returns the definitions of Berth that the control plane has.
async fn installed(
    definitions: &Api<CustomResourceDefinition>,
) -> Result<Vec<CustomResourceDefinition>, UninstallError> {
    let mut installed = Vec::new();
    for definition in berth_api::crds::all() {
        let name = definition.name_any();
        let found = definitions.get_opt(&name).await;
        installed.extend(found.map_err(refused(format!("read the definition {name}")))?);
    }
    Ok(installed)
}

/// Returns the objects of the definitions that have finalizers.
async fn held_objects(
    client: &Client,
    definitions: &[CustomResourceDefinition],
) -> Result<Vec<HeldObject>, UninstallError> {
    let mut held = Vec::new();
    for definition in definitions {
        let spec = &definition.spec;
        let Some(version) = spec.versions.iter().find(|version| version.served) else {
            continue;
        };
        let gvk = GroupVersionKind::gvk(&spec.group, &version.name, &spec.names.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &spec.names.plural);
        let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let objects = match list_all(&all).await {
            Ok(objects) => objects,
            // The definition is not established, or it is deleted by now.
            Err(error) if has_code(&error, 404) => continue,
            Err(error) => return Err(refused(format!("list {}", spec.names.plural))(error)),
        };
        let with_finalizers = objects
            .into_iter()
            .filter(|object| !object.finalizers().is_empty());
        held.extend(with_finalizers.map(|object| HeldObject {
            api: match object.namespace() {
                Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
                None => all.clone(),
            },
            object,
            kind: spec.names.kind.clone(),
        }));
    }
    Ok(held)
}
