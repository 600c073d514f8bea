//! The secrets of one instance: its certificate authority, the key that signs tokens, the administrator's
//! token. Made at the first start; kept in a folder that only its owner can read where one is given, and in
//! memory alone otherwise.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use crate::tls::{self, TlsError};

/// See the module documentation. Keys are PEM.
pub(crate) struct Credentials {
    pub(crate) ca_key: String,
    pub(crate) ca_certificate: String,
    pub(crate) signing_key: String,
    pub(crate) token: String,
}

impl Credentials {
    /// Reads what is in the folder, and makes what is missing.
    pub(crate) fn load(folder: Option<&Path>) -> Result<Self, TlsError> {
        let keep = |name: &str, make: &dyn Fn() -> Result<String, TlsError>| match folder {
            None => make(),
            Some(folder) => kept(folder, name, make),
        };
        if let Some(folder) = folder {
            private_folder(folder).map_err(|source| failed(folder, source))?;
        }
        let ca_key = keep("ca.key", &tls::new_key)?;
        let ca_certificate = keep("ca.crt", &|| tls::authority_certificate(&ca_key))?;
        Ok(Self {
            ca_certificate,
            signing_key: keep("service-account.key", &tls::new_key)?,
            token: keep("admin.token", &tls::token)?,
            ca_key,
        })
    }
}

fn failed(path: &Path, source: io::Error) -> TlsError {
    TlsError::File {
        path: path.to_owned(),
        source,
    }
}

/// The content of a file, made and written if it is not there.
fn kept(
    folder: &Path,
    name: &str,
    make: &dyn Fn() -> Result<String, TlsError>,
) -> Result<String, TlsError> {
    let path = folder.join(name);
    match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        read => return read.map_err(|source| failed(&path, source)),
    }
    let text = make()?;
    write_private(folder, &path, &text).map_err(|source| failed(&path, source))?;
    Ok(text)
}

/// Whole or not at all, and never readable by others.
fn write_private(folder: &Path, path: &Path, text: &str) -> io::Result<()> {
    let draft = folder.join(format!(".{}", uuid::Uuid::new_v4()));
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&draft, path)
}

fn private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn secrets_are_kept_and_private() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("pki");
        let first = Credentials::load(Some(&folder)).unwrap();
        let again = Credentials::load(Some(&folder)).unwrap();
        assert_eq!(first.token, again.token);
        assert_eq!(first.ca_certificate, again.ca_certificate);
        assert_ne!(first.token, Credentials::load(None).unwrap().token);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        let files: Vec<_> = fs::read_dir(&folder).unwrap().map(Result::unwrap).collect();
        assert_eq!(files.len(), 4);
        for file in files {
            assert_eq!(mode(&file.path()), 0o600, "{file:?}");
        }
    }
}
