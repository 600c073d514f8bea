//! Client certificates: the common name is the user, the organisations are the groups. The TLS library has
//! checked by now that our own authority signed them.

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::identity::{AUTHENTICATED, Identity};

/// Who a certificate stands for; none if it names nobody.
pub(crate) fn identity(certificate: &CertificateDer<'_>) -> Option<Identity> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let user = parsed
        .subject()
        .iter_common_name()
        .find_map(|n| n.as_str().ok())?
        .to_owned();
    let mut groups: Vec<String> = parsed
        .subject()
        .iter_organization()
        .filter_map(|n| n.as_str().ok())
        .map(str::to_owned)
        .collect();
    groups.push(AUTHENTICATED.to_owned());
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
    let hex = digest
        .as_ref()
        .iter()
        .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    let extra = [(
        "authentication.kubernetes.io/credential-id".to_owned(),
        vec![format!("X509SHA256={hex}")],
    )];
    (!user.is_empty()).then(|| Identity {
        user,
        groups,
        extra: extra.into(),
        ..Identity::default()
    })
}
