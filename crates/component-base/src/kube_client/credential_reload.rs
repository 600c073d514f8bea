//! A client transport that reloads credentials when a kubeconfig or a file that it names changes.
//!
//! The client library reads a kubeconfig, certificates and keys only once, so a renewed client certificate would require
//! a restart, and so would a control plane with a new certificate authority, such as a restarted `berth up`. The
//! transport ignores token files, because the library reloads them itself.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use http::{HeaderMap, Request, Response};
use kube::client::Body;
use kube::config::Kubeconfig;
use tower::{BoxError, Service};

use crate::kube_client::{self, Target, kubeconfigs_of_environment, transport};

/// Interval between checks of the files.
const PERIOD: Duration = Duration::from_secs(5);

/// A transport that sends each request through the newest client. Clones are cheap.
#[derive(Clone)]
pub(crate) struct ReloadingTransport {
    current: Arc<ArcSwap<kube::Client>>,
}

impl ReloadingTransport {
    /// Creates a transport. Returns `None` if neither the target nor `$KUBECONFIG` names a kubeconfig.
    ///
    /// # Errors
    /// When the certificates or keys cannot be used.
    pub(crate) fn of(config: &kube::Config, target: &Target) -> Result<Option<Self>, kube::Error> {
        let kubeconfigs = match &target.kubeconfig {
            Some(path) => vec![path.clone()],
            None => kubeconfigs_of_environment(),
        };
        if kubeconfigs.is_empty() {
            return Ok(None);
        }
        let files = Files {
            kubeconfigs,
            target: target.clone(),
        };
        let seen = files.contents();
        let client = transport::builder(config, HeaderMap::new())?.build();
        let current = Arc::new(ArcSwap::from_pointee(client));
        tokio::spawn(follow(
            files,
            seen,
            config.clone(),
            Arc::downgrade(&current),
        ));
        Ok(Some(Self { current }))
    }
}

struct Files {
    kubeconfigs: Vec<PathBuf>,
    target: Target,
}

impl Files {
    /// Reads the kubeconfigs, and the certificate and key files that they name.
    fn contents(&self) -> Vec<Option<Vec<u8>>> {
        let mut contents = Vec::new();
        for path in &self.kubeconfigs {
            contents.push(std::fs::read(path).ok());
            let Ok(kubeconfig) = Kubeconfig::read_from(path) else {
                continue;
            };
            let clusters = kubeconfig.clusters.into_iter();
            let authorities = clusters.filter_map(|cluster| cluster.cluster?.certificate_authority);
            let users = kubeconfig
                .auth_infos
                .into_iter()
                .filter_map(|user| user.auth_info);
            let identities = users.flat_map(|user| [user.client_certificate, user.client_key]);
            let paths = authorities.chain(identities.flatten());
            contents.extend(paths.map(|path| std::fs::read(path).ok()));
        }
        contents
    }

    /// Returns the paths of the kubeconfigs for messages.
    fn names(&self) -> String {
        let names = self
            .kubeconfigs
            .iter()
            .map(|path| path.display().to_string());
        names.collect::<Vec<_>>().join(", ")
    }
}

/// Replaces the client whenever a file changes. Returns when all clones of the transport are dropped.
async fn follow(
    files: Files,
    mut seen: Vec<Option<Vec<u8>>>,
    mut config: kube::Config,
    current: Weak<ArcSwap<kube::Client>>,
) {
    loop {
        tokio::time::sleep(PERIOD).await;
        let Some(current) = current.upgrade() else {
            return;
        };
        let contents = files.contents();
        if contents == seen {
            continue;
        }
        seen = contents;
        let path = files.names();
        let made = async {
            let fresh = kube_client::config(&files.target).await?;
            config.root_cert = fresh.root_cert;
            config.auth_info = fresh.auth_info;
            let builder = transport::builder(&config, HeaderMap::new());
            let builder =
                builder.map_err(|error| kube_client::ConnectError::Client(Box::new(error)))?;
            Ok::<_, kube_client::ConnectError>(builder.build())
        };
        match made.await {
            Ok(client) => {
                current.store(Arc::new(client));
                tracing::info!(kubeconfig = %path, "credentials changed; new connections use them");
            }
            // Files are renewed one after another. The change of the next file triggers another attempt.
            Err(error) => {
                tracing::warn!(kubeconfig = %path, %error, "cannot use the changed credentials; the previous credentials stay in use");
            }
        }
    }
}

impl Service<Request<Body>> for ReloadingTransport {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.current.load_full();
        Box::pin(async move { client.send(request).await.map_err(Into::into) })
    }
}
