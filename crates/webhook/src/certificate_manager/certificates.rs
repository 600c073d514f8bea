//! A certificate authority and a serving certificate: how they are issued, and when they are renewed.
//!
//! This module must not depend on the storage of the certificates.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use crate::serving_certificate::ServingCertificate;

const DAY: Duration = Duration::from_hours(24);
/// Lifetime of a certificate authority.
const CA_LIFETIME: Duration = DAY.saturating_mul(3650);
/// Remaining lifetime at which an authority is replaced.
const CA_RENEWAL: Duration = DAY.saturating_mul(365);
/// Lifetime of a serving certificate.
const SERVING_LIFETIME: Duration = DAY.saturating_mul(90);
/// Remaining lifetime at which a serving certificate is replaced.
const SERVING_RENEWAL: Duration = DAY.saturating_mul(30);
/// Tolerated difference between the clocks of replicas and API servers.
const CLOCK_SKEW: Duration = Duration::from_hours(1);
/// Maximum number of authorities in a CA bundle: the current authority and the previous authority.
const MAX_AUTHORITIES: usize = 2;

/// The certificates and keys in the Secret, all in PEM format.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Certificates {
    /// The certificate of the current authority, followed by the certificate of the previous authority.
    pub(crate) ca_bundle: String,
    /// The key of the current authority.
    pub(crate) ca_key: String,
    /// The serving certificate.
    pub(crate) certificate: String,
    /// The key of the serving certificate.
    pub(crate) key: String,
}

impl Certificates {
    /// Returns new certificates, or `None` if the current certificates are usable, valid for long enough and issued for
    /// all `names`.
    pub(crate) fn next(
        current: Option<&Self>,
        names: &[String],
        now: SystemTime,
    ) -> Result<Option<Self>, rcgen::Error> {
        let Some(current) = current else {
            return Self::with_new_authority("", names, now).map(Some);
        };
        let authority = Details::of(&current.ca_bundle);
        let authority = authority.filter(|authority| authority.expires > now + CA_RENEWAL);
        let ca_key = KeyPair::from_pem(&current.ca_key).ok().filter(|key| {
            authority.is_some_and(|authority| authority.public_key == key.subject_public_key_info())
        });
        let Some(ca_key) = ca_key else {
            return Self::with_new_authority(&current.ca_bundle, names, now).map(Some);
        };
        let (chain, key) = (current.certificate.as_bytes(), current.key.as_bytes());
        let serving_is_valid = ServingCertificate::from_pem(chain, key).is_ok()
            && Details::of(&current.certificate).is_some_and(|serving| {
                serving.expires > now + SERVING_RENEWAL
                    && names.iter().all(|name| serving.names.contains(name))
            });
        if serving_is_valid {
            return Ok(None);
        }
        let (certificate, key) = serving(ca_key, names, now)?;
        Ok(Some(Self {
            certificate,
            key,
            ..current.clone()
        }))
    }

    fn with_new_authority(
        predecessors: &str,
        names: &[String],
        now: SystemTime,
    ) -> Result<Self, rcgen::Error> {
        let ca_key = KeyPair::generate()?;
        let mut params = authority_params();
        set_validity(&mut params, now, CA_LIFETIME);
        let mut ca_bundle = params.self_signed(&ca_key)?.pem();
        let valid = certificates(predecessors)
            .into_iter()
            .filter(|(_, details)| details.expires > now)
            .take(MAX_AUTHORITIES - 1);
        for (pem, _) in valid {
            ca_bundle.push_str(&pem);
        }
        let stored_key = ca_key.serialize_pem();
        let (certificate, key) = serving(ca_key, names, now)?;
        Ok(Self {
            ca_bundle,
            ca_key: stored_key,
            certificate,
            key,
        })
    }
}

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "berth-webhook-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    params
}

/// Issues a serving certificate, and returns it with its key.
fn serving(
    ca_key: KeyPair,
    names: &[String],
    now: SystemTime,
) -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names.to_vec())?;
    params
        .distinguished_name
        .push(DnType::CommonName, "berth-webhook");
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    set_validity(&mut params, now, SERVING_LIFETIME);
    let issuer = Issuer::new(authority_params(), ca_key);
    let certificate = params.signed_by(&key, &issuer)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// Sets the validity of a certificate. It begins [`CLOCK_SKEW`] before `now`.
fn set_validity(params: &mut CertificateParams, now: SystemTime, lifetime: Duration) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let passed = now.duration_since(SystemTime::UNIX_EPOCH);
    let passed = Duration::from_secs(passed.unwrap_or_default().as_secs());
    params.not_before = epoch + passed.saturating_sub(CLOCK_SKEW);
    params.not_after = epoch + passed + lifetime;
}

/// Properties of a certificate.
struct Details {
    expires: SystemTime,
    names: Vec<String>,
    public_key: Vec<u8>,
}

impl Details {
    /// Returns the properties of the first certificate of a chain or bundle, if it is usable.
    fn of(pem: &str) -> Option<Self> {
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
        Self::of_der(&der)
    }

    fn of_der(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let seconds = certificate.validity().not_after.timestamp();
        let names = certificate.subject_alternative_name().ok()?;
        let names = names.map(|extension| extension.value.general_names.as_slice());
        let dns = |name: &GeneralName<'_>| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        };
        Some(Self {
            expires: SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).ok()?),
            names: names.unwrap_or_default().iter().filter_map(dns).collect(),
            public_key: certificate.public_key().raw.to_vec(),
        })
    }
}

/// Returns the usable certificates of a bundle, with their properties.
fn certificates(bundle: &str) -> Vec<(String, Details)> {
    const END: &str = "-----END CERTIFICATE-----";
    let whole = bundle
        .split_inclusive(END)
        .filter(|part| part.ends_with(END));
    whole
        .filter_map(|part| Some((format!("{}\n", part.trim_start()), Details::of(part)?)))
        .collect()
}

#[cfg(test)]
mod tests;
