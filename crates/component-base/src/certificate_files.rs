//! Reading and watching of the files that contain a certificate and its key. The files are loaded again when they
//! change, for example when cert-manager renews the certificate.

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
    /// The files contain no usable certificate and key.
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

    /// Replaces the certificate in `serving` when the files change, until the token is cancelled. If the new files are
    /// unusable, logs the error and keeps the current certificate.
    pub async fn watch(
        self,
        serving: ServingCertificate,
        interval: Duration,
        cancel: CancellationToken,
    ) {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick loads the files again, because they may have changed after `load`.
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
                        tracing::error!(%error, "cannot load the new serving certificate; the current one stays");
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
        // The two files are written one after the other. If only one file is new, the certificate and the key do not
        // fit together, and the next tick reads both files again.
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
