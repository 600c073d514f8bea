//! The kubeconfig that `berth up` writes: whole or not at all, readable by its owner only, and never over
//! somebody else's.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use kube::config::Kubeconfig;

/// The name of the context, and the mark by which we know our own file.
pub const CONTEXT: &str = "berth";

/// A kubeconfig that cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// There is no home folder to put it in.
    #[error("HOME is not set: say with --kubeconfig where the kubeconfig goes")]
    NoHome,
    /// The file is somebody else's.
    #[error("{path} holds other contexts and is not overwritten: choose another --kubeconfig", path = .0.display())]
    NotOurs(PathBuf),
    /// The file cannot be written.
    #[error("cannot write {path}: {source}", path = .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// A place for a kubeconfig, checked before anything is started.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    draft: tempfile::NamedTempFile,
}

impl Place {
    /// Checks that a kubeconfig can be written here; without a path it is `~/.berth/kubeconfig`.
    ///
    /// # Errors
    /// When it cannot, or when the file there is not ours.
    pub fn reserve(path: Option<PathBuf>) -> Result<Self, KubeconfigError> {
        let path = match path {
            Some(path) => path,
            None => match std::env::var_os("HOME").filter(|home| !home.is_empty()) {
                Some(home) => PathBuf::from(home).join(".berth").join("kubeconfig"),
                None => return Err(KubeconfigError::NoHome),
            },
        };
        let unwritable = |source| KubeconfigError::Write {
            path: path.clone(),
            source,
        };
        if path.is_dir() {
            return Err(unwritable(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        if path.exists() && !is_ours(&path) {
            return Err(KubeconfigError::NotOurs(path));
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        std::fs::create_dir_all(folder).map_err(unwritable)?;
        // Temporary files are readable by their owner only, and the rename keeps that.
        let draft = tempfile::NamedTempFile::new_in(folder).map_err(unwritable)?;
        Ok(Self { path, draft })
    }

    /// Writes the kubeconfig.
    ///
    /// # Errors
    /// When the disk refuses it; what was there before is then still there.
    pub fn write(mut self, text: &str) -> Result<PathBuf, KubeconfigError> {
        let unwritable = |path: &Path, source| KubeconfigError::Write {
            path: path.to_owned(),
            source,
        };
        self.draft
            .write_all(text.as_bytes())
            .map_err(|source| unwritable(&self.path, source))?;
        self.draft
            .persist(&self.path)
            .map_err(|error| unwritable(&self.path, error.error))?;
        Ok(self.path)
    }
}

/// A file is ours when it holds no context but ours; an empty file is anybody's.
fn is_ours(path: &Path) -> bool {
    match Kubeconfig::read_from(path) {
        Ok(kubeconfig) => kubeconfig
            .contexts
            .iter()
            .all(|context| context.name == CONTEXT),
        Err(_) => std::fs::metadata(path).is_ok_and(|metadata| metadata.len() == 0),
    }
}
