//! The Secret with the certificates. Its resource version ensures that only one of several concurrent writes succeeds.

use std::collections::BTreeMap;

use berth_apimachinery::namespaced_name::NamespacedName;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};

use super::certificates::Certificates;

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const CA_BUNDLE: &str = "ca.crt";
const CA_KEY: &str = "ca.key";

/// The Secret as it was read, with its certificates.
pub(super) struct StoredSecret {
    secret: Option<Secret>,
    certificates: Option<Certificates>,
}

impl StoredSecret {
    pub(super) async fn read(client: &Client, name: &NamespacedName) -> Result<Self, kube::Error> {
        let secret = api(client, name).get_opt(&name.name).await?;
        let data = secret.as_ref().and_then(|secret| secret.data.as_ref());
        Ok(Self {
            certificates: data.map(certificates),
            secret,
        })
    }

    pub(super) fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    pub(super) fn into_certificates(self) -> Option<Certificates> {
        self.certificates
    }

    /// Writes the Secret. Returns false if another replica wrote the Secret after it was read.
    pub(super) async fn write(
        self,
        client: &Client,
        name: &NamespacedName,
        certificates: &Certificates,
    ) -> Result<bool, kube::Error> {
        let api = api(client, name);
        let parameters = PostParams::default();
        let written = if let Some(mut secret) = self.secret {
            secret
                .data
                .get_or_insert_default()
                .append(&mut data(certificates));
            api.replace(&name.name, &parameters, &secret).await
        } else {
            let secret = Secret {
                metadata: ObjectMeta {
                    name: Some(name.name.clone()),
                    namespace: Some(name.namespace.clone()),
                    ..ObjectMeta::default()
                },
                type_: Some("kubernetes.io/tls".to_owned()),
                data: Some(data(certificates)),
                ..Secret::default()
            };
            api.create(&parameters, &secret).await
        };
        match written {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn api(client: &Client, name: &NamespacedName) -> Api<Secret> {
    Api::namespaced(client.clone(), &name.namespace)
}

/// Returns the certificates of a Secret. A missing part becomes an empty string, which [`Certificates::next`] treats as
/// damaged.
fn certificates(data: &BTreeMap<String, ByteString>) -> Certificates {
    let text = |key: &str| {
        let bytes = data.get(key).map(|bytes| bytes.0.as_slice());
        String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
    };
    Certificates {
        ca_bundle: text(CA_BUNDLE),
        ca_key: text(CA_KEY),
        certificate: text(CERTIFICATE),
        key: text(KEY),
    }
}

fn data(certificates: &Certificates) -> BTreeMap<String, ByteString> {
    let entry = |key: &str, text: &str| (key.to_owned(), ByteString(text.as_bytes().to_vec()));
    BTreeMap::from([
        entry(CERTIFICATE, &certificates.certificate),
        entry(KEY, &certificates.key),
        entry(CA_BUNDLE, &certificates.ca_bundle),
        entry(CA_KEY, &certificates.ca_key),
    ])
}
