//! A certificate and its key in files, which are loaded again when they change, as cert-manager and kubelet replace them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::serving_certificate::{CertificateError, ServingCertificate};

/// The files of a serving certificate.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// The certificate chain, PEM.
    pub certificate: PathBuf,
    /// The private key, PEM.
    pub key: PathBuf,
}

/// Certificate files that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A file cannot be read.
    #[error("cannot read the serving certificate: {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The files have no usable certificate.
    #[error("cannot use the serving certificate {} with {}: {source}", certificate.display(), key.display())]
    Unusable {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The reason.
        source: CertificateError,
    },
}

/// The content of both files.
#[derive(PartialEq, Eq)]
struct Content {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl CertificateFiles {
    /// Loads the certificate.
    ///
    /// # Errors
    /// When a file cannot be read or used.
    pub fn load(&self) -> Result<ServingCertificate, FileError> {
        let content = self.read()?;
        ServingCertificate::from_pem(&content.certificate, &content.key)
            .map_err(|source| self.unusable(source))
    }

    /// Replaces `serving` when the files change, until the token is cancelled. Unusable files are logged, and the current
    /// certificate stays.
    pub async fn watch(
        self,
        serving: ServingCertificate,
        interval: Duration,
        cancel: CancellationToken,
    ) {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick loads the files again, because they may have changed since they were loaded.
        let mut last = None;
        let mut failure = String::new();
        loop {
            tokio::select! {
                () = cancel.cancelled() => return,
                _ = ticks.tick() => {}
            }
            match self.reload(&serving, &mut last) {
                Ok(()) => failure.clear(),
                Err(error) => {
                    let error = error.to_string();
                    // A lasting failure is logged once.
                    if error != failure {
                        tracing::error!(%error, "the serving certificate stays as it is");
                        failure = error;
                    }
                }
            }
        }
    }

    fn reload(
        &self,
        serving: &ServingCertificate,
        last: &mut Option<Content>,
    ) -> Result<(), FileError> {
        let content = self.read()?;
        if last.as_ref() == Some(&content) {
            return Ok(());
        }
        // The files are written one after the other: a pair that does not fit is read again at the next tick.
        serving
            .replace(&content.certificate, &content.key)
            .map_err(|source| self.unusable(source))?;
        if last.is_some() {
            tracing::info!(certificate = %self.certificate.display(), "loaded the new serving certificate");
        }
        *last = Some(content);
        Ok(())
    }

    fn read(&self) -> Result<Content, FileError> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|source| FileError::Read {
                path: path.to_owned(),
                source,
            })
        };
        Ok(Content {
            certificate: read(&self.certificate)?,
            key: read(&self.key)?,
        })
    }

    fn unusable(&self, source: CertificateError) -> FileError {
        FileError::Unusable {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            source,
        }
    }
}
