//! The command `berth drain`, which moves all workloads away from a member, and `berth uncordon`, which brings them back.
//!
//! ```text
//! preview ──> cordon ──> evictions, at the pace of --budget ──> progress, until the copies are gone
//!    ↑                   workloads first, then other objects        │
//!    └────────────── a further look, for fresh workloads ───────────┘
//! ```
//!
//! An eviction is one patch of a binding. The schedulers and controllers of the control plane do the rest, so that an
//! interrupted drain continues with the next run: the annotation of the bindings is the only state.

mod binding_patch;
mod bring_back;
mod budget;
mod departing;
mod error;
mod evict;
mod eviction_rounds;
mod preview;
mod progress;
pub mod uncordon;

use std::path::PathBuf;
use std::time::Duration;

use berth_api::Work;
use berth_plan::control_plane_lists::placement_resources;
use berth_plan::scheduler_configuration::DecisionConfiguration;
use berth_plan::what_if::{DrainPreview, predict_drain};
use clap::Args;
use kube::Client;
use kube::api::ApiResource;
use tokio_util::sync::CancellationToken;

pub use self::budget::Budget;
pub use self::error::DrainError;
use self::eviction_rounds::EvictionRounds;
use crate::clusters::cordon::{self, CordonArgs, CordonState};
use crate::control_plane::ControlPlaneArgs;
use crate::engine_flags::EngineFlags;
use crate::member_name;
use crate::output;
use crate::scheduler_endpoint::SchedulerEndpointArgs;

/// Flags of `berth drain`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct DrainArgs {
    /// Name of the member
    #[arg(value_name = "NAME", value_parser = member_name::parse)]
    pub name: String,

    /// Report what would move and what would stay; nothing is written
    #[arg(long)]
    pub dry_run: bool,

    /// Seconds to wait until the workloads have left; 0 for no limit
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub timeout: u64,

    /// Maximum evictions in a time, such as 10/m: a number per second (s), minute (m) or hour (h) [default: no limit]
    #[arg(long, value_name = "N/UNIT")]
    pub budget: Option<Budget>,

    /// Flags that select the control plane.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,

    /// Configuration file of the scheduler, for the preview [default: that of the running scheduler]
    #[arg(long, value_name = "FILE", conflicts_with = "scheduler_url")]
    pub config: Option<PathBuf>,

    /// Flags that select the running scheduler.
    #[command(flatten)]
    pub scheduler: SchedulerEndpointArgs,

    /// Flags that affect scheduling decisions.
    #[command(flatten)]
    pub engine: EngineFlags,
}

const EXAMPLES: &str = "\
Examples:
  berth drain member1 --dry-run           shows what would move, and what would stay
  berth drain member1                     cordons member1, evicts its workloads, and waits until they have left
  berth drain member1 --budget 10/m       evicts at most ten bindings a minute
  berth uncordon --bring-back member1     ends the maintenance, and has the workloads placed again

Workloads that fit into no other cluster stay, and keep running. A second run continues an interrupted one. Exit codes:
0 if no workload is left in the member, or if none would be left with --dry-run; 1 if a workload stays, the time of
--timeout has passed, or the command was interrupted; 2 for an invalid command line.";

/// The result of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainResult {
    /// All workloads can leave, or have left.
    Drained,
    /// Workloads stay.
    WorkloadsStay,
}

impl DrainResult {
    /// Returns the exit code.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Drained => 0,
            Self::WorkloadsStay => 1,
        }
    }

    fn of(preview: &DrainPreview) -> Self {
        match preview.workloads_that_stay() {
            0 => Self::Drained,
            _ => Self::WorkloadsStay,
        }
    }
}

/// Drains a member, and waits until its workloads have left.
///
/// # Errors
/// Fails if the control plane cannot be read or written, at the timeout, and if the user interrupts the command.
pub async fn run(args: DrainArgs, cancel: CancellationToken) -> Result<DrainResult, DrainError> {
    let previewing = async {
        let configuration = args.configuration().await?;
        configuration.check()?;
        let [clusters, bindings, cluster_bindings] = placement_resources();
        let works = ApiResource::erase::<Work>(&());
        let resources = [clusters, bindings, cluster_bindings, works];
        let client = args.control_plane.client(&resources).await?;
        let preview = predict_drain(&client, &configuration, &args.name).await?;
        Ok::<_, DrainError>((client, configuration, preview))
    };
    let (client, configuration, preview) = tokio::select! {
        previewed = previewing => previewed?,
        () = cancel.cancelled() => return Err(DrainError::InterruptedPreview),
    };
    output::print(&preview::text(&preview, &args.name))?;
    if args.dry_run {
        return Ok(DrainResult::of(&preview));
    }
    let cordon = CordonArgs {
        names: vec![args.name.clone()],
        dry_run: false,
        control_plane: args.control_plane.clone(),
    };
    cordon::run(cordon, CordonState::Cordoned).await?;
    evict_and_wait(client, &configuration, preview, &args, cancel).await
}

/// Evicts the bindings of a preview, and waits until they have left. Then looks for further bindings, until there are
/// none.
async fn evict_and_wait(
    client: Client,
    configuration: &DecisionConfiguration,
    first: DrainPreview,
    args: &DrainArgs,
    cancel: CancellationToken,
) -> Result<DrainResult, DrainError> {
    let timeout = (args.timeout > 0).then(|| Duration::from_secs(args.timeout));
    let mut rounds = EvictionRounds::new(&client, &args.name, args.budget, timeout, cancel);
    let mut preview = first.clone();
    loop {
        rounds.run(&preview).await?;
        let again = predict_drain(&client, configuration, &args.name);
        preview = rounds.unless_interrupted(again).await??;
        if !rounds.has_new(&preview) {
            break;
        }
    }
    let returned = rounds.returned(&preview);
    let result = match returned.len() {
        0 => DrainResult::of(&preview),
        _ => DrainResult::WorkloadsStay,
    };
    let progress = rounds.progress();
    progress.clear()?;
    let closing = preview::closing(&first, &preview, &returned, &args.name, progress);
    output::print(&closing)?;
    Ok(result)
}

impl DrainArgs {
    /// Returns the configuration for the preview: a file, that of the running scheduler, or the flags.
    async fn configuration(&self) -> Result<DecisionConfiguration, DrainError> {
        if let Some(path) = &self.config {
            return Ok(self.engine.configuration_of_file(path)?);
        }
        let Some(endpoint) = self.scheduler.endpoint(&self.control_plane).await? else {
            return Ok(self.engine.configuration());
        };
        match endpoint.configuration().await {
            Ok(active) => {
                let out_of_tree = self.engine.out_of_tree.clone();
                let url = endpoint.url();
                Ok(DecisionConfiguration::of_scheduler(
                    url,
                    &active,
                    out_of_tree,
                ))
            }
            // The scheduler of `berth up` may be off, so the command continues with the flags.
            Err(_) if self.scheduler.scheduler_url.is_none() => Ok(self.engine.configuration()),
            Err(error) => Err(error.into()),
        }
    }
}
