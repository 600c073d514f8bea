//! Service account tokens: JSON Web Tokens signed with ES256. A token is bound to a service account, and optionally to
//! a pod, a secret or a node.

use std::collections::{BTreeMap, HashMap};

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
use crate::table_names;

/// The issuer of tokens, and the default audience of tokens.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";
/// Seconds by which the clock may have moved since a token was issued, the same as in Kubernetes. Without it, a clock
/// that is set back makes new tokens invalid.
const LEEWAY: i64 = 60;
/// Maximum number of tokens whose verified claims are cached.
const MAX_CACHED: usize = 1024;

/// The claims of a service account token.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Claims {
    aud: Vec<String>,
    /// Time of the expiry. Tokens in secrets have no such claim, because they do not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exp: Option<i64>,
    iat: i64,
    iss: String,
    jti: String,
    #[serde(rename = "kubernetes.io")]
    bound: BoundObjects,
    nbf: i64,
    sub: String,
}

impl Claims {
    /// Reports whether the token is valid at a time in seconds of the Unix epoch.
    fn are_valid_at(&self, time: i64) -> bool {
        let has_ended = |end: i64| time >= end.saturating_add(LEEWAY);
        !self.exp.is_some_and(has_ended) && time >= self.nbf.saturating_sub(LEEWAY)
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct BoundObjects {
    namespace: String,
    serviceaccount: ObjectRef,
    /// The pod, secret or node that the token is bound to, by lower-case kind.
    #[serde(flatten)]
    others: BTreeMap<String, ObjectRef>,
}

/// A reference to an object by name and uid.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ObjectRef {
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// The contents of a new token.
#[derive(Debug)]
pub(crate) struct TokenSpec<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) account: ObjectRef,
    pub(crate) audiences: Vec<String>,
    /// Lifetime in seconds. `None` for a token that does not expire.
    pub(crate) seconds: Option<i64>,
    /// The pod, secret or node that the token is bound to, by lower-case kind. With a pod, the map also contains the
    /// node of the pod.
    pub(crate) bound: BTreeMap<String, ObjectRef>,
}

/// A signed token.
#[derive(Debug)]
pub(crate) struct SignedToken {
    pub(crate) token: String,
    /// Time of the expiry in seconds of the Unix epoch.
    pub(crate) expires: Option<i64>,
}

/// An error of verifying a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("invalid bearer token")]
    Unknown,
    #[error("[invalid bearer token, token audiences are invalid for the target audiences]")]
    Audience,
    #[error("[invalid bearer token, service account token has expired]")]
    Expired,
    #[error("[invalid bearer token, service account token has been invalidated]")]
    Revoked,
}

/// An error of using the signing key.
#[derive(Debug, thiserror::Error)]
#[error("the key for service account tokens cannot be used")]
pub(crate) struct SigningError;

/// The signer and verifier of service account tokens.
pub(crate) struct Signer {
    key: EcdsaKeyPair,
    random: SystemRandom,
    /// Id of the key, the `kid` of tokens.
    id: String,
    /// The encoded header of all tokens, with the dot after it.
    header: String,
    verified: Mutex<HashMap<Box<str>, Claims>>,
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

impl Signer {
    /// Creates a signer from a PKCS #8 private key.
    pub(crate) fn new(pkcs8: &[u8]) -> Result<Self, SigningError> {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random)
            .map_err(|_| SigningError)?;
        let digest = ring::digest::digest(&ring::digest::SHA256, key.public_key().as_ref());
        let id = URL_SAFE_NO_PAD.encode(digest.as_ref());
        let header = json!({"alg": "ES256", "kid": id}).to_string();
        Ok(Self {
            key,
            random,
            id,
            header: format!("{}.", URL_SAFE_NO_PAD.encode(header)),
            verified: Mutex::default(),
        })
    }

    pub(crate) fn sign(&self, spec: TokenSpec<'_>) -> Result<SignedToken, SigningError> {
        let issued = now();
        let claims = Claims {
            aud: spec.audiences,
            exp: spec.seconds.map(|s| issued.saturating_add(s)),
            iat: issued,
            iss: ISSUER.to_owned(),
            jti: uuid::Uuid::new_v4().to_string(),
            sub: Identity::service_account(spec.namespace, &spec.account.name).user,
            bound: BoundObjects {
                namespace: spec.namespace.to_owned(),
                serviceaccount: spec.account,
                others: spec.bound,
            },
            nbf: issued,
        };
        let body = serde_json::to_vec(&claims).map_err(|_| SigningError)?;
        let mut token = format!("{}{}", self.header, URL_SAFE_NO_PAD.encode(body));
        let signature = self
            .key
            .sign(&self.random, token.as_bytes())
            .map_err(|_| SigningError)?;
        token.push('.');
        token.push_str(&URL_SAFE_NO_PAD.encode(signature.as_ref()));
        Ok(SignedToken {
            token,
            expires: claims.exp,
        })
    }

    /// Returns the OpenID configuration of the server for clients that connect to `host`.
    pub(crate) fn configuration(host: &str) -> Value {
        json!({
            "issuer": ISSUER, "jwks_uri": format!("https://{host}/openid/v1/jwks"),
            "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    }

    /// Returns the public key as a JSON Web Key Set.
    pub(crate) fn keys(&self) -> Value {
        // The point is uncompressed: a tag byte, then the two coordinates.
        let point = self.key.public_key().as_ref();
        let (x, y) = point.get(1..).unwrap_or_default().split_at(point.len() / 2);
        json!({"keys": [{"use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256",
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y)}]})
    }

    /// Returns the claims of a token, or `None` if the token is malformed or its signature is invalid.
    fn claims(&self, token: &str) -> Option<Claims> {
        if let Some(claims) = self.verified.lock().get(token) {
            return Some(claims.clone());
        }
        let (signed, signature) = token.rsplit_once('.')?;
        // The server has one algorithm and one key, so all tokens have the same header.
        let body = signed.strip_prefix(&self.header)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_key().as_ref())
            .verify(signed.as_bytes(), &signature)
            .ok()?;
        let claims: Claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(body).ok()?).ok()?;
        let mut verified = self.verified.lock();
        if verified.len() >= MAX_CACHED {
            verified.clear();
        }
        verified.insert(token.into(), claims.clone());
        Some(claims)
    }

    /// Returns the service account of a token. Fails if the token is expired or has none of the audiences, or if the
    /// account or another object that the token is bound to does not exist.
    pub(crate) fn verify(
        &self,
        store: &Store,
        token: &str,
        audiences: &[String],
    ) -> Result<Bearer, TokenError> {
        let claims = self.claims(token).ok_or(TokenError::Unknown)?;
        if !claims.are_valid_at(now()) {
            return Err(TokenError::Expired);
        }
        let own = [ISSUER.to_owned()];
        let accepted = if audiences.is_empty() {
            &own[..]
        } else {
            audiences
        };
        let common: Vec<String> = accepted
            .iter()
            .filter(|a| claims.aud.contains(a))
            .cloned()
            .collect();
        if common.is_empty() {
            return Err(TokenError::Audience);
        }
        let bound = &claims.bound;
        let exists = |table: &str, namespace: &str, named: &ObjectRef| {
            store
                .get(table, &Key::new(namespace, &named.name))
                .is_some_and(|object| *object.uid == *named.uid)
        };
        let exists_in_namespace = |table, named| exists(table, &bound.namespace, named);
        let has_pod = bound.others.contains_key("pod");
        let others_alive = bound.others.iter().all(|(kind, named)| match &**kind {
            "pod" => exists_in_namespace(table_names::PODS, named),
            "secret" => exists_in_namespace(table_names::SECRETS, named),
            // The node of a pod may be deleted before the pod, so a token that is bound to a pod does not need the
            // node.
            "node" => has_pod || exists(table_names::NODES, "", named),
            _ => true,
        });
        let alive = others_alive
            && exists_in_namespace(table_names::SERVICE_ACCOUNTS, &bound.serviceaccount);
        if !alive {
            return Err(TokenError::Revoked);
        }
        let mut identity = Identity::service_account(&bound.namespace, &bound.serviceaccount.name);
        identity.uid.clone_from(&bound.serviceaccount.uid);
        let mut add_extra = |key: &str, value: String| {
            let key = format!("authentication.kubernetes.io/{key}");
            identity.extra.insert(key, vec![value]);
        };
        add_extra("credential-id", format!("JTI={}", claims.jti));
        for (kind, object) in bound.others.iter().filter(|(kind, _)| *kind != "secret") {
            add_extra(&format!("{kind}-name"), object.name.clone());
            add_extra(&format!("{kind}-uid"), object.uid.clone());
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
        let account = ObjectRef {
            name: "bot".to_owned(),
            uid: "u1".to_owned(),
        };
        let spec = TokenSpec {
            namespace: "n",
            account,
            audiences: vec![audience.to_owned()],
            seconds: Some(seconds),
            bound: BTreeMap::new(),
        };
        signer.sign(spec).unwrap().token
    }

    #[test]
    fn tokens_tolerate_clocks_that_differ_by_a_minute() {
        let signer = signer();
        let claims = signer.claims(&token(&signer, 600, ISSUER)).unwrap();
        let issued = claims.iat;
        for (time, valid) in [
            (issued - 61, false),
            (issued - 60, true),
            (issued, true),
            (issued + 659, true),
            (issued + 660, false),
        ] {
            assert_eq!(claims.are_valid_at(time), valid, "{}", time - issued);
        }
    }

    #[test]
    fn a_token_is_valid_while_its_account_exists() {
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
        let error = |token: &str| signer.verify(&store, token, &[]).unwrap_err();
        assert_eq!(error(&token(&signer, -61, ISSUER)), TokenError::Expired);
        let other = error(&token(&signer, 600, "other"));
        assert_eq!(other, TokenError::Audience);
        let foreign = token(&super::tests::signer(), 600, ISSUER);
        assert_eq!(error(&foreign), TokenError::Unknown);
        let (head, _) = good.rsplit_once('.').unwrap();
        let (_, tail) = token(&signer, 700, ISSUER)
            .rsplit_once('.')
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .unwrap();
        assert_eq!(error(&format!("{head}.{tail}")), TokenError::Unknown);
        store.remove(&table, &key, version, &mut account).unwrap();
        assert_eq!(error(&good), TokenError::Revoked);
    }
}
