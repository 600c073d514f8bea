//! `berth webhook`: admission webhooks for a control plane with an API server of its own, in place of karmada-webhook.

pub mod flags;

use std::time::Duration;

use berth_scheduler::process::accepted_flags;
use berth_webhook::{FileError, ServerOptions, StartError, WebhookServer};
use tokio_util::sync::CancellationToken;

pub use self::flags::WebhookArgs;

/// Interval between checks whether the certificate files changed.
const CERTIFICATE_INTERVAL: Duration = Duration::from_secs(10);

/// An error that prevents or ends the webhooks.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The certificate files cannot be used.
    #[error("{0}: put a certificate and its key there, or name its folder with --cert-dir")]
    Files(#[from] FileError),
    /// The server cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Serves the webhooks until the token is cancelled.
///
/// # Errors
/// When they cannot start.
pub async fn run(args: WebhookArgs, cancel: CancellationToken) -> Result<(), WebhookError> {
    accepted_flags::log_given(args.without_effect.given());
    let files = args.certificate_files();
    let certificate = files.load()?;
    let server = WebhookServer::bind(ServerOptions {
        listen: args.listen(),
        minimum_tls: args.minimum_tls(),
        no_execute: args.no_execute(),
        certificate: certificate.clone(),
    })
    .await?;
    tracing::info!(address = %server.address(), "serving admission webhooks");
    tokio::join!(
        server.run(cancel.clone()),
        files.watch(certificate, CERTIFICATE_INTERVAL, cancel),
    );
    Ok(())
}
