//! The kubeconfig that `berth up` writes. The file is replaced atomically, and only its owner can read it. A file with
//! contexts that `berth up` did not write is never overwritten.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use berth_apiserver::Server;
use kube::config::Kubeconfig;
use serde_json::{Value, json};

/// Name of the context of the control plane. The extension with this name lists all contexts that `berth up` wrote.
pub const CONTEXT: &str = "berth";

/// An administrator's access to the API server of the control plane or of a member.
#[derive(Clone)]
pub struct Access {
    context: String,
    url: String,
    ca_pem: String,
    token: String,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access")
            .field("context", &self.context)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Access {
    /// Returns the administrator's access to a server, for a context with the name `context`.
    pub fn to(server: &Server, context: &str) -> Self {
        Self {
            context: context.to_owned(),
            url: server.url(),
            ca_pem: server.ca_pem().to_owned(),
            token: server.token().to_owned(),
        }
    }
}

/// Returns the text of a kubeconfig with one context for each server. The first context is the current context.
pub fn text(servers: &[Access]) -> String {
    use base64::Engine as _;
    let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let list =
        |entry: &dyn Fn(&Access) -> Value| -> Vec<Value> { servers.iter().map(entry).collect() };
    let names: Vec<&str> = servers.iter().map(|s| s.context.as_str()).collect();
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "preferences": {},
        "current-context": names.first(),
        "clusters": list(&|s| json!({"name": s.context, "cluster": {
            "server": s.url, "certificate-authority-data": base64(&s.ca_pem)}})),
        "users": list(&|s| json!({"name": s.context, "user": {"token": s.token}})),
        "contexts": list(&|s| json!({"name": s.context, "context": {
            "cluster": s.context, "user": s.context, "namespace": "default"}})),
        "extensions": [{"name": CONTEXT, "extension": {"contexts": names}}],
    });
    serde_saphyr::to_string(&config).unwrap_or_else(|_| config.to_string())
}

/// Returns the path of the kubeconfig, which is `flag` or `~/.berth/kubeconfig`.
///
/// # Errors
/// Fails if the flag is unset and the user has no home folder.
pub fn path(flag: Option<PathBuf>) -> Result<PathBuf, KubeconfigError> {
    match flag {
        Some(path) => Ok(path),
        None => match std::env::var_os("HOME").filter(|home| !home.is_empty()) {
            Some(home) => Ok(PathBuf::from(home).join(".berth").join("kubeconfig")),
            None => Err(KubeconfigError::NoHome),
        },
    }
}

/// An error of finding or writing the kubeconfig.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The environment variable `HOME` is not set.
    #[error("HOME is not set: pass --kubeconfig PATH")]
    NoHome,
    /// The existing file has contexts that `berth up` did not write.
    #[error("{path} has contexts that `berth up` did not write, and is not overwritten: choose another --kubeconfig", path = .0.display())]
    NotOurs(PathBuf),
    /// The file cannot be written.
    #[error("cannot write {path}: {source}", path = .path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
}

/// The right to write a kubeconfig later. `berth up` checks the path before it starts a server.
#[derive(Debug)]
pub struct Reservation {
    path: PathBuf,
    draft: tempfile::NamedTempFile,
}

impl Reservation {
    /// Checks that a kubeconfig can be written to `path`.
    ///
    /// # Errors
    /// Fails if the file cannot be written, or if it has contexts that `berth up` did not write.
    pub fn reserve(path: PathBuf) -> Result<Self, KubeconfigError> {
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
        // Only the owner can read a temporary file. Renaming the file keeps these permissions.
        let draft = tempfile::NamedTempFile::new_in(folder).map_err(unwritable)?;
        Ok(Self { path, draft })
    }

    /// Returns the path of the kubeconfig.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the kubeconfig, and returns its path.
    ///
    /// # Errors
    /// Fails if the file cannot be written. An existing file then stays unchanged.
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

/// Reports whether `berth up` wrote all contexts of the file. The result is true for an empty file.
pub fn is_ours(path: &Path) -> bool {
    let Ok(kubeconfig) = Kubeconfig::read_from(path) else {
        return std::fs::metadata(path).is_ok_and(|metadata| metadata.len() == 0);
    };
    let listed = kubeconfig.extensions.as_ref().and_then(|extensions| {
        let own = extensions.iter().find(|known| known.name == CONTEXT)?;
        own.extension["contexts"].as_array()
    });
    kubeconfig.contexts.iter().all(|context| {
        context.name == CONTEXT
            || listed.is_some_and(|names| names.iter().any(|name| *name == context.name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(context: &str) -> Access {
        Access {
            context: context.to_owned(),
            url: "https://127.0.0.1:1".to_owned(),
            ca_pem: "a certificate".to_owned(),
            token: "a token".to_owned(),
        }
    }

    #[test]
    fn only_a_file_without_foreign_contexts_is_ours() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let ours = text(&[access(CONTEXT), access("member1")]);
        std::fs::write(&path, &ours).unwrap();
        assert!(is_ours(&path), "{ours}");
        let read = Kubeconfig::read_from(&path).unwrap();
        assert_eq!(read.current_context.as_deref(), Some(CONTEXT));
        assert_eq!(read.contexts.len(), 2);

        let mut added = read;
        added.contexts[1].name = "production".to_owned();
        std::fs::write(&path, serde_json::to_string(&added).unwrap()).unwrap();
        assert!(!is_ours(&path));
    }
}
