//! The secrets of a server: the key and certificate of its certificate authority, the signing key of tokens, and the
//! administrator's token. The server generates missing secrets at its start. Secrets are kept in memory or in a private
//! folder.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::authentication::service_account::Signer;
use crate::tls::{self, TlsError};

const CA_KEY: &str = "ca.key";
const CA_CERTIFICATE: &str = "ca.crt";
const SIGNING_KEY: &str = "service-account.key";
const TOKEN: &str = "admin.token";

/// The secrets of a server. The keys and the certificate are in PEM format.
pub(crate) struct Credentials {
    pub(crate) ca_key: String,
    pub(crate) ca_certificate: String,
    pub(crate) signing_key: String,
    pub(crate) token: String,
}

impl Credentials {
    /// Reads the secrets from the files of the folder, and generates missing files. Without a folder, generates the
    /// secrets in memory.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written, or is damaged, or if `ca.crt` exists without its key
    /// `ca.key`.
    pub(crate) fn load(folder: Option<&Path>) -> Result<Self, TlsError> {
        let Some(folder) = folder else {
            return Self::create(|_, generate| generate());
        };
        private_folder(folder).map_err(|source| failed(folder, source))?;
        if folder.join(CA_CERTIFICATE).exists() && !folder.join(CA_KEY).exists() {
            return Err(damaged(folder, CA_KEY, "it is missing"));
        }
        let credentials = Self::create(|name, generate| read_or_generate(folder, name, generate))
            .map_err(|error| match error {
            TlsError::Key => damaged(folder, CA_KEY, &error.to_string()),
            error => error,
        })?;
        credentials
            .problem()
            .map_or(Ok(credentials), |(name, message)| {
                Err(damaged(folder, name, &message))
            })
    }

    fn create(
        get: impl Fn(&str, &dyn Fn() -> Result<String, TlsError>) -> Result<String, TlsError>,
    ) -> Result<Self, TlsError> {
        let ca_key = get(CA_KEY, &tls::new_key)?;
        let certificate = || {
            tls::pkcs8(&ca_key)?;
            tls::authority_certificate(&ca_key)
        };
        Ok(Self {
            ca_certificate: get(CA_CERTIFICATE, &certificate)?,
            signing_key: get(SIGNING_KEY, &tls::new_key)?,
            token: get(TOKEN, &tls::token)?.trim_end().to_owned(),
            ca_key,
        })
    }

    /// Returns the name of the first damaged file and the problem of the file.
    fn problem(&self) -> Option<(&'static str, String)> {
        let pem = |key: &str| tls::pkcs8(key).map_err(|error| error.to_string());
        if let Err(message) = pem(&self.ca_key) {
            return Some((CA_KEY, message));
        }
        if let Some(message) = tls::mismatch(&self.ca_key, &self.ca_certificate) {
            return Some((CA_CERTIFICATE, message));
        }
        let signer = pem(&self.signing_key)
            .and_then(|key| Signer::new(&key).map_err(|error| error.to_string()));
        if let Err(message) = signer {
            return Some((SIGNING_KEY, message));
        }
        let token = URL_SAFE_NO_PAD.decode(&self.token);
        if token.is_ok_and(|token| token.len() == tls::TOKEN_BYTES) {
            return None;
        }
        Some((TOKEN, "the token is incomplete".to_owned()))
    }
}

fn damaged(folder: &Path, name: &str, message: &str) -> TlsError {
    TlsError::Damaged {
        path: folder.join(name),
        message: message.to_owned(),
        folder: folder.to_owned(),
    }
}

fn failed(path: &Path, source: io::Error) -> TlsError {
    TlsError::File {
        path: path.to_owned(),
        source,
    }
}

/// Returns the content of a file. Generates the file if it is missing.
fn read_or_generate(
    folder: &Path,
    name: &str,
    generate: &dyn Fn() -> Result<String, TlsError>,
) -> Result<String, TlsError> {
    let path = folder.join(name);
    match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(damaged(folder, name, "it is not text"));
        }
        read => return read.map_err(|source| failed(&path, source)),
    }
    let text = generate()?;
    write_private(folder, &path, &text).map_err(|source| failed(&path, source))?;
    Ok(text)
}

/// Writes a file atomically. Only the owner may read and write the file.
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
    fn secrets_are_kept_in_private_files() {
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

    #[test]
    fn no_certificate_is_created_for_a_damaged_key() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("pki");
        Credentials::load(Some(&folder)).unwrap();
        fs::remove_file(folder.join(CA_CERTIFICATE)).unwrap();
        fs::write(folder.join(CA_KEY), "damaged").unwrap();
        let refused = Credentials::load(Some(&folder)).err().unwrap().to_string();
        assert!(refused.contains(CA_KEY), "{refused}");
        assert!(!folder.join(CA_CERTIFICATE).exists());
    }

    #[test]
    fn damaged_files_are_refused_by_name() {
        let home = tempfile::tempdir().unwrap();
        let (folder, other) = (home.path().join("pki"), home.path().join("other"));
        Credentials::load(Some(&folder)).unwrap();
        Credentials::load(Some(&other)).unwrap();
        let files = [CA_KEY, CA_CERTIFICATE, SIGNING_KEY, TOKEN];
        let flipped = |whole: &[u8]| {
            let mut bytes = whole.to_vec();
            let middle = bytes.len() / 2;
            // The new letter is also in the Base64 alphabet.
            bytes[middle] = if bytes[middle] == b'A' { b'B' } else { b'A' };
            bytes
        };
        for name in files {
            let path = folder.join(name);
            let whole = fs::read(&path).unwrap();
            let mut damages = vec![
                Vec::new(),
                whole[..whole.len() / 2].to_vec(),
                vec![0xff; 40],
            ];
            // A token has no checksum, and any key may sign tokens. So the server cannot detect a changed byte or a
            // file of another server in these two cases.
            if name != TOKEN && name != SIGNING_KEY {
                damages.extend([flipped(&whole), fs::read(other.join(name)).unwrap()]);
            }
            for damage in damages {
                fs::write(&path, &damage).unwrap();
                let refused = Credentials::load(Some(&folder)).err().unwrap().to_string();
                // The CA key of another server is valid, so the message may name the certificate, which does not match
                // the key.
                let pair = name == CA_KEY && refused.contains(CA_CERTIFICATE);
                assert!(refused.contains(name) || pair, "{name}: {refused}");
                assert!(refused.contains("put the file back"), "{refused}");
                assert!(!refused.contains('\n'), "{refused}");
            }
            fs::write(&path, &whole).unwrap();
        }
        fs::remove_file(folder.join(CA_KEY)).unwrap();
        let refused = Credentials::load(Some(&folder)).err().unwrap().to_string();
        assert!(refused.contains("ca.key: it is missing"), "{refused}");
        assert!(
            !folder.join(CA_KEY).exists(),
            "no key replaces the missing key"
        );
    }
}
