//! The commands `berth fail` and `berth heal`, which make simulated members of `berth up` unreachable and reachable. They
//! set or remove the annotation [`FAULT_ANNOTATION`] of a Cluster.

use std::io::Write as _;

use berth_api::Cluster;
use berth_apimachinery::api_error::api_error_message;
use berth_component_base::kube_client::{self, ConnectError, Target};
use berth_component_base::user_agent::Component;
use berth_up::fault_injection::{FAULT_ANNOTATION, UNREACHABLE};
use berth_up::kubeconfig::CONTEXT;
use clap::Args;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use kube::config::Kubeconfig;
use serde_json::json;

use crate::control_plane::{self, InstanceArgs, LookupError};
use crate::member_name;

/// Flags of `berth fail` and `berth heal`.
#[derive(Args, Clone, Debug)]
pub struct FaultArgs {
    /// Names of simulated members
    #[arg(required = true, value_name = "MEMBER", value_parser = member_name::parse)]
    pub members: Vec<String>,

    /// Flags that select the `berth up`.
    #[command(flatten)]
    pub instance: InstanceArgs,
}

/// Requested change of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Makes the members unreachable.
    Fail,
    /// Makes the members reachable again.
    Heal,
}

/// An error of `berth fail` or `berth heal`.
#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    /// No `berth up` runs with the selected kubeconfig.
    #[error(transparent)]
    NotUp(#[from] LookupError),
    /// The command cannot connect to the control plane.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The name is not the name of a simulated member.
    #[error("{name} is not a simulated member; the simulated members are: {known}")]
    NotSimulated {
        /// Name from the command line.
        name: String,
        /// Names of the simulated members.
        known: String,
    },
    /// The control plane refuses the annotation.
    #[error("cannot annotate cluster {name}: {}", api_error_message(source))]
    Refused {
        /// Name of the member.
        name: String,
        /// Cause.
        source: Box<kube::Error>,
    },
}

/// Annotates the Clusters of the members. The task of `berth up` then makes the members unreachable or reachable.
///
/// # Errors
/// Fails if a member is not simulated, or if the control plane refuses the annotation.
pub async fn request(args: FaultArgs, fault: Fault) -> Result<(), FaultError> {
    let path = control_plane::instance(&args.instance)?.kubeconfig;
    let target = Target {
        kubeconfig: Some(path.clone()),
        context: Some(CONTEXT.to_owned()),
        master: None,
    };
    let config = kube_client::config(&target).await?;
    let client = kube_client::reach(config, Component::CommandLine).await?;
    // The kubeconfig has a context for each simulated member.
    let contexts = Kubeconfig::read_from(&path).map(|kubeconfig| kubeconfig.contexts);
    let known: Vec<String> = contexts
        .unwrap_or_default()
        .into_iter()
        .map(|context| context.name)
        .filter(|name| name != CONTEXT)
        .collect();
    if let Some(unknown) = args.members.iter().find(|name| !known.contains(name)) {
        return Err(FaultError::NotSimulated {
            name: unknown.clone(),
            known: if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            },
        });
    }
    let clusters: Api<Cluster> = Api::all(client);
    let value = (fault == Fault::Fail).then_some(UNREACHABLE);
    let change =
        Patch::Merge(json!({ "metadata": { "annotations": { FAULT_ANNOTATION: value } } }));
    for name in &args.members {
        let refused = |source| FaultError::Refused {
            name: name.clone(),
            source: Box::new(source),
        };
        let before = clusters.get_metadata(name).await.map_err(refused)?;
        let failed = before
            .annotations()
            .get(FAULT_ANNOTATION)
            .is_some_and(|value| value == UNREACHABLE);
        clusters
            .patch(name, &PatchParams::default(), &change)
            .await
            .map_err(refused)?;
        let outcome = match (fault, failed) {
            (Fault::Fail, false) => {
                "is unreachable now; it becomes not ready after the failure threshold"
            }
            (Fault::Heal, true) => {
                "is reachable again; it becomes ready after the success threshold"
            }
            (Fault::Fail, true) => "is unreachable already; `berth heal` makes it reachable again",
            (Fault::Heal, false) => "was already reachable",
        };
        let _ = writeln!(std::io::stdout(), "{name} {outcome}");
    }
    Ok(())
}
