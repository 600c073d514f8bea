//! `berth controllers`: what surrounds the scheduler, for a control plane that has no controllers of its own.
//! It must not run beside karmada-controller-manager, which does all of this itself.

use std::path::PathBuf;

use berth_controllers::detector::{self, DetectorError, DetectorOptions, OptionsError};
use berth_controllers::propagation::{self, PropagationError, PropagationOptions};
use berth_scheduler::connect::{self, ConnectError, Target};
use clap::Args;
use tokio_util::sync::CancellationToken;

use crate::cluster_controllers::{self, ClusterArgs};
use crate::failover::{FailoverArgs, FailoverFailure, Setting};

/// Flags of the detector, shared with `berth up`.
#[derive(Args, Clone, Debug)]
pub struct DetectorArgs {
    /// APIs that are never propagated: GROUP, GROUP/VERSION or GROUP/VERSION/KIND,KIND; separated by `;`
    #[arg(
        long,
        value_name = "LIST",
        default_value = "",
        hide_default_value = true
    )]
    pub skipped_propagating_apis: String,

    /// Namespaces that are never propagated, as regular expressions over the whole name
    #[arg(
        long,
        value_name = "REGEX",
        default_value = "kube-.*",
        value_delimiter = ','
    )]
    pub skipped_propagating_namespaces: Vec<String>,
}

impl Default for DetectorArgs {
    fn default() -> Self {
        Self {
            skipped_propagating_apis: String::new(),
            skipped_propagating_namespaces: vec!["kube-.*".to_owned()],
        }
    }
}

impl DetectorArgs {
    /// The options that the flags say.
    ///
    /// # Errors
    /// When a flag cannot be understood.
    pub fn options(&self) -> Result<DetectorOptions, OptionsError> {
        DetectorOptions::parse(
            &self.skipped_propagating_apis,
            &self.skipped_propagating_namespaces,
        )
    }
}

/// Flags of `berth controllers`.
#[derive(Args, Clone, Debug)]
pub struct ControllersArgs {
    /// Path to a kubeconfig file of the control plane
    ///
    /// Without it, KUBECONFIG, ~/.kube/config and the in-cluster configuration are tried, in this order.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Address of the API server; wins over the kubeconfig
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,

    #[command(flatten)]
    detector: DetectorArgs,

    #[command(flatten)]
    failover: FailoverArgs,

    #[command(flatten)]
    clusters: ClusterArgs,
}

/// Why the controllers ended, or could not begin.
#[derive(Debug, thiserror::Error)]
pub enum ControllersError {
    /// The control plane cannot be addressed.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A flag of the detector cannot be understood.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The detector cannot start, or ended.
    #[error("the detector: {0}")]
    Detector(#[from] DetectorError),
    /// The propagation to members has ended.
    #[error(transparent)]
    Propagation(#[from] PropagationError),
    /// Failover has ended.
    #[error(transparent)]
    Failover(#[from] FailoverFailure),
}

/// Runs the controllers until the token is cancelled.
///
/// # Errors
/// When they cannot begin, or one of them fails.
pub async fn run(args: ControllersArgs, cancel: CancellationToken) -> Result<(), ControllersError> {
    let options = args.detector.options()?;
    let target = Target {
        kubeconfig: args.kubeconfig,
        context: None,
        master: args.master,
    };
    let client = connect::client(connect::config(&target).await?)?;
    // Where one of them fails, the other is not left alone.
    let cancel = cancel.child_token();
    let _guard = cancel.clone().drop_guard();
    let propagation = Box::pin(propagation::run(
        client.clone(),
        PropagationOptions::default(),
        cancel.clone(),
    ));
    let failover = args.failover.parts(Setting::Real);
    let failing_over = Box::pin(failover.run(client.clone(), cancel.clone()));
    let detecting = options.clone();
    let clusters = Box::pin(cluster_controllers::run(
        client.clone(),
        args.clusters,
        &detecting,
        cancel.clone(),
    ));
    tokio::try_join!(
        async { Ok::<_, ControllersError>(detector::run(client, options, cancel.clone()).await?) },
        async { Ok(propagation.await?) },
        async { Ok(failing_over.await?) },
        async {
            clusters.await;
            Ok(())
        },
    )?;
    Ok(())
}
