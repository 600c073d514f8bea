//! Tokens of service accounts: JSON Web Tokens signed with ES256, bound to the account that they were made
//! for and, on request, to a pod or a secret.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    UnparsedPublicKey,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Bearer;
use crate::identity::Identity;
use crate::store::{Key, Store};
use crate::tls::TlsError;

/// Who signs, and whom tokens are meant for unless they say otherwise.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";
/// Signatures known to be good, so that a busy client does not cost one verification a request.
const REMEMBERED: usize = 1024;

/// What a token says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Claims {
    aud: Vec<String>,
    /// Those in secrets do not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exp: Option<i64>,
    iat: i64,
    iss: String,
    jti: String,
    #[serde(rename = "kubernetes.io")]
    bound: BoundTo,
    nbf: i64,
    sub: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct BoundTo {
    namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<Named>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<Named>,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<Named>,
    serviceaccount: Named,
}

/// An object of which exactly this incarnation is meant.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// What else must exist for a token to be good.
#[derive(Debug, Clone)]
pub(crate) enum Tie {
    /// The token also tells of the node that the pod is on.
    Pod {
        pod: Named,
        node: Option<Named>,
    },
    Secret(Named),
    Node(Named),
}

/// What a token is to say.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) account: Named,
    pub(crate) audiences: Vec<String>,
    /// How long it is good; without end if nothing is said.
    pub(crate) seconds: Option<i64>,
    pub(crate) tie: Option<Tie>,
}

/// A new token, and when it expires.
#[derive(Debug)]
pub(crate) struct Signed {
    pub(crate) token: String,
    pub(crate) expires: Option<i64>,
}

/// Why a token is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("invalid bearer token")]
    Unknown,
    #[error(
        "[invalid bearer token, token audiences {has} is invalid for the target audiences {wanted}]"
    )]
    Audience { has: String, wanted: String },
    #[error("[invalid bearer token, service account token has expired]")]
    Expired,
    #[error("[invalid bearer token, service account token has been invalidated]")]
    Revoked,
}

/// Makes and checks tokens.
pub(crate) struct Signer {
    key: EcdsaKeyPair,
    random: SystemRandom,
    /// The name of the key.
    id: String,
    /// The first part of every token, with its dot.
    header: String,
    known: Mutex<HashMap<Box<str>, Claims>>,
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn quoted(list: &[String]) -> String {
    let quoted: Vec<String> = list.iter().map(|v| format!("\"{v}\"")).collect();
    format!("[{}]", quoted.join(" "))
}

impl Signer {
    /// From a private key in PKCS #8.
    pub(crate) fn new(pkcs8: &[u8]) -> Result<Self, TlsError> {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random)
            .map_err(|_| TlsError::SigningKey)?;
        let digest = ring::digest::digest(&ring::digest::SHA256, key.public_key().as_ref());
        let id = URL_SAFE_NO_PAD.encode(digest.as_ref());
        let header = json!({"alg": "ES256", "kid": id}).to_string();
        Ok(Self {
            key,
            random,
            id,
            header: format!("{}.", URL_SAFE_NO_PAD.encode(header)),
            known: Mutex::default(),
        })
    }

    pub(crate) fn sign(&self, wanted: Wanted<'_>) -> Result<Signed, TlsError> {
        let issued = now();
        let (node, pod, secret) = match wanted.tie {
            None => (None, None, None),
            Some(Tie::Pod { pod, node }) => (node, Some(pod), None),
            Some(Tie::Secret(secret)) => (None, None, Some(secret)),
            Some(Tie::Node(node)) => (Some(node), None, None),
        };
        let claims = Claims {
            aud: wanted.audiences,
            exp: wanted.seconds.map(|s| issued.saturating_add(s)),
            iat: issued,
            iss: ISSUER.to_owned(),
            jti: uuid::Uuid::new_v4().to_string(),
            sub: Identity::service_account(wanted.namespace, &wanted.account.name).user,
            bound: BoundTo {
                namespace: wanted.namespace.to_owned(),
                node,
                pod,
                secret,
                serviceaccount: wanted.account,
            },
            nbf: issued,
        };
        let body = serde_json::to_vec(&claims).map_err(|_| TlsError::SigningKey)?;
        let mut token = format!("{}{}", self.header, URL_SAFE_NO_PAD.encode(body));
        let signature = self
            .key
            .sign(&self.random, token.as_bytes())
            .map_err(|_| TlsError::SigningKey)?;
        token.push('.');
        token.push_str(&URL_SAFE_NO_PAD.encode(signature.as_ref()));
        Ok(Signed {
            token,
            expires: claims.exp,
        })
    }

    /// Where whoever wants to check a token finds the key, asked at this host.
    pub(crate) fn configuration(host: &str) -> Value {
        json!({
            "issuer": ISSUER, "jwks_uri": format!("https://{host}/openid/v1/jwks"),
            "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    }

    /// The key that tokens are checked with, as a JSON Web Key Set.
    pub(crate) fn keys(&self) -> Value {
        // An uncompressed point: a byte that says so, and the two coordinates.
        let point = self.key.public_key().as_ref();
        let (x, y) = point.get(1..).unwrap_or_default().split_at(point.len() / 2);
        json!({"keys": [{"use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256",
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y)}]})
    }

    /// What a token with our signature says.
    fn claims(&self, token: &str) -> Option<Claims> {
        if let Some(claims) = self.known.lock().get(token) {
            return Some(claims.clone());
        }
        let (signed, signature) = token.rsplit_once('.')?;
        // The header is ours to the byte: there is no other algorithm and no other key.
        let body = signed.strip_prefix(&self.header)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_key().as_ref())
            .verify(signed.as_bytes(), &signature)
            .ok()?;
        let claims: Claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(body).ok()?).ok()?;
        let mut known = self.known.lock();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(token.into(), claims.clone());
        Some(claims)
    }

    /// The account behind a token, if it and what the token is bound to still exist.
    pub(crate) fn verify(
        &self,
        store: &Store,
        token: &str,
        audiences: &[String],
    ) -> Result<Bearer, Refused> {
        let claims = self.claims(token).ok_or(Refused::Unknown)?;
        let at = now();
        if claims.exp.is_some_and(|end| at >= end) || at < claims.nbf {
            return Err(Refused::Expired);
        }
        let own = [ISSUER.to_owned()];
        let wanted = if audiences.is_empty() {
            &own[..]
        } else {
            audiences
        };
        let common: Vec<String> = wanted
            .iter()
            .filter(|a| claims.aud.contains(a))
            .cloned()
            .collect();
        if common.is_empty() {
            return Err(Refused::Audience {
                has: quoted(&claims.aud),
                wanted: quoted(wanted),
            });
        }
        let bound = &claims.bound;
        let exists = |table: &str, namespace: &str, named: &Named| {
            store
                .get(table, &Key::new(namespace, &named.name))
                .is_some_and(|object| *object.uid == *named.uid)
        };
        let is_there = |table, named| exists(table, &bound.namespace, named);
        // The node of a pod may go before the pod does.
        let alone = bound.node.as_ref().filter(|_| bound.pod.is_none());
        let alive = is_there("serviceaccounts", &bound.serviceaccount)
            && bound.pod.as_ref().is_none_or(|p| is_there("pods", p))
            && bound.secret.as_ref().is_none_or(|s| is_there("secrets", s))
            && alone.is_none_or(|n| exists("nodes", "", n));
        if !alive {
            return Err(Refused::Revoked);
        }
        let mut identity = Identity::service_account(&bound.namespace, &bound.serviceaccount.name);
        identity.uid.clone_from(&bound.serviceaccount.uid);
        let mut note = |key: &str, value: String| {
            let key = format!("authentication.kubernetes.io/{key}");
            identity.extra.insert(key, vec![value]);
        };
        note("credential-id", format!("JTI={}", claims.jti));
        for (what, object) in [("node", &bound.node), ("pod", &bound.pod)] {
            if let Some(object) = object {
                note(&format!("{what}-name"), object.name.clone());
                note(&format!("{what}-uid"), object.uid.clone());
            }
        }
        Ok(Bearer {
            identity,
            audiences: common,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::storage::Volatile;
    use crate::store::TableName;

    fn signer() -> Signer {
        Signer::new(&rcgen::KeyPair::generate().unwrap().serialize_der()).unwrap()
    }

    fn token(signer: &Signer, seconds: i64, audience: &str) -> String {
        let account = Named {
            name: "bot".to_owned(),
            uid: "u1".to_owned(),
        };
        let wanted = Wanted {
            namespace: "n",
            account,
            audiences: vec![audience.to_owned()],
            seconds: Some(seconds),
            tie: None,
        };
        signer.sign(wanted).unwrap().token
    }

    #[test]
    fn a_token_is_good_while_its_account_lives() {
        let store = Store::open(Box::new(Volatile), Box::new(|_, _| ())).unwrap();
        let table: TableName = "serviceaccounts".into();
        let mut account = json!({"metadata": {"name": "bot", "uid": "u1"}});
        let key = Key::new("n", "bot");
        let version = store
            .create(&table, key.clone(), &mut account)
            .unwrap()
            .version;
        let signer = signer();
        let good = token(&signer, 600, ISSUER);
        let identity = signer.verify(&store, &good, &[]).unwrap().identity;
        assert_eq!(identity.user, "system:serviceaccount:n:bot");
        let refused = |token: &str| signer.verify(&store, token, &[]).unwrap_err();
        assert_eq!(refused(&token(&signer, -1, ISSUER)), Refused::Expired);
        assert!(matches!(
            refused(&token(&signer, 600, "other")),
            Refused::Audience { .. }
        ));
        let foreign = token(&super::tests::signer(), 600, ISSUER);
        assert_eq!(refused(&foreign), Refused::Unknown);
        let (head, _) = good.rsplit_once('.').unwrap();
        let (_, tail) = token(&signer, 700, ISSUER)
            .rsplit_once('.')
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .unwrap();
        assert_eq!(refused(&format!("{head}.{tail}")), Refused::Unknown);
        store.remove(&table, &key, version, &mut account).unwrap();
        assert_eq!(refused(&good), Refused::Revoked);
    }
}
