//! The configuration of extenders and its validation.
//!
//! The fields equal the fields of kube-scheduler's extenders, with clusters in place of nodes.

use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use berth_component_base::go_duration::go_duration;
use berth_https_client::tls::{Identity, Pem, Tls, Trust};

/// The default time limit of a call.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// An HTTP extender: an external server that filters and scores clusters, limits preemptions or stores decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("required" = ["urlPrefix"]))]
pub struct ExtenderConfig {
    /// URL of the extender, for example `http://127.0.0.1:8888/scheduler`. The verbs are appended after a slash.
    pub url_prefix: String,
    /// The verb of filter calls. If empty, the extender does not filter.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub filter_verb: String,
    /// The verb of prioritize calls. If empty, the extender does not score.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prioritize_verb: String,
    /// The verb of preempt calls. If empty, the extender does not limit preemptions.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preempt_verb: String,
    /// The verb of bind calls. If empty, the extender does not store decisions. Only one extender may have this verb.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bind_verb: String,
    /// Factor of the extender's scores. Must be positive with a `prioritizeVerb`.
    #[serde(skip_serializing_if = "is_zero")]
    pub weight: i64,
    /// Requires TLS: a `urlPrefix` with the scheme `http` is then rejected.
    #[serde(rename = "enableHTTPS", skip_serializing_if = "is_false")]
    pub enable_https: bool,
    /// TLS options of the connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_config: Option<ExtenderTls>,
    /// Time limit of a call, for example `500ms` or `5s`. If 0 or absent, the limit is 5 s.
    #[serde(rename = "httpTimeout", skip_serializing_if = "Option::is_none")]
    pub http_timeout: Option<String>,
    /// The extender caches the clusters itself: requests contain only their names.
    #[serde(skip_serializing_if = "is_false")]
    pub cluster_cache_capable: bool,
    /// The resources whose bindings the extender handles. If empty, the extender handles all resources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub managed_resources: Vec<ManagedResource>,
    /// Bindings are scheduled without the extender when it fails.
    #[serde(skip_serializing_if = "is_false")]
    pub ignorable: bool,
}

/// A kind of resource whose bindings an extender handles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManagedResource {
    /// Group and version, for example `apps/v1`.
    #[schemars(length(min = 1))]
    pub api_version: String,
    /// The kind, for example `Deployment`.
    #[schemars(length(min = 1))]
    pub kind: String,
}

/// TLS options of the connections to an extender. Inline data takes precedence over a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ExtenderTls {
    /// Accepts any certificate. For tests only. A certificate authority cannot be set in addition.
    #[serde(skip_serializing_if = "is_false")]
    pub insecure: bool,
    /// The name in the extender's certificate. If empty, the host of the `urlPrefix`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub server_name: String,
    /// The file of the client certificate, in PEM.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cert_file: String,
    /// The file of the client certificate's key, in PEM.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key_file: String,
    /// The file of the authorities that sign the extender's certificate, in PEM. If empty, the authorities that the
    /// system trusts.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ca_file: String,
    /// The contents of `certFile` in base64.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cert_data: String,
    /// The contents of `keyFile` in base64.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key_data: String,
    /// The contents of `caFile` in base64.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ca_data: String,
}

/// An invalid field in the configuration of an extender.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub(crate) struct ExtenderConfigError {
    /// The path of the field, for example `extenders[1].weight`.
    pub path: String,
    /// The cause of the error and the remedy.
    pub message: String,
}

/// The kind of a call to an extender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Verb {
    /// Filters clusters.
    Filter,
    /// Scores clusters.
    Prioritize,
    /// Permits or spares the victims of a preemption.
    Preempt,
    /// Stores decisions.
    Bind,
}

impl Verb {
    /// Returns the name of the verb in metrics and messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Prioritize => "prioritize",
            Self::Preempt => "preempt",
            Self::Bind => "bind",
        }
    }
}

/// The validated configuration of an extender.
#[derive(Clone, Debug)]
pub(super) struct Validated {
    pub(super) prefix: String,
    pub(super) filter: Option<Uri>,
    pub(super) prioritize: Option<Uri>,
    pub(super) preempt: Option<Uri>,
    pub(super) bind: Option<Uri>,
    pub(super) weight: i64,
    pub(super) tls: Option<Tls>,
    pub(super) timeout: Duration,
    pub(super) names_only: bool,
    pub(super) managed: Vec<ManagedResource>,
    pub(super) ignorable: bool,
}

/// Validates all extenders of a configuration.
///
/// # Errors
/// If a field is invalid. The error names the first invalid field.
pub(super) fn validate(configs: &[ExtenderConfig]) -> Result<Vec<Validated>, ExtenderConfigError> {
    let mut validated: Vec<Validated> = Vec::with_capacity(configs.len());
    for (index, config) in configs.iter().enumerate() {
        let extender = config.validate().map_err(|(field, message)| {
            let path = format!("extenders[{index}].{field}");
            ExtenderConfigError { path, message }
        })?;
        if extender.bind.is_some() && validated.iter().any(|earlier| earlier.bind.is_some()) {
            return Err(ExtenderConfigError {
                path: format!("extenders[{index}].bindVerb"),
                message: "an earlier extender has a bindVerb already: only one can store decisions"
                    .into(),
            });
        }
        validated.push(extender);
    }
    Ok(validated)
}

/// The path of an invalid field within the extender, and the message.
type FieldError = (&'static str, String);

impl ExtenderConfig {
    fn validate(&self) -> Result<Validated, FieldError> {
        let prefix = self.url_prefix.trim_end_matches('/');
        let https = self.uses_https(prefix)?;
        let verb = |field: &'static str, verb: &str| {
            if verb.is_empty() {
                return Ok(None);
            }
            let url = format!("{prefix}/{}", verb.trim_start_matches('/'));
            let url: Uri = url
                .parse()
                .map_err(|error| (field, format!("{url:?} is not a URL: {error}")))?;
            Ok(Some(url))
        };
        let (filter, prioritize) = (
            verb("filterVerb", &self.filter_verb)?,
            verb("prioritizeVerb", &self.prioritize_verb)?,
        );
        let (preempt, bind) = (
            verb("preemptVerb", &self.preempt_verb)?,
            verb("bindVerb", &self.bind_verb)?,
        );
        if filter.is_none() && prioritize.is_none() && preempt.is_none() && bind.is_none() {
            let message = "the extender has no verb: give it a filterVerb, prioritizeVerb, preemptVerb or bindVerb";
            return Err(("urlPrefix", message.into()));
        }
        if self.weight < 0 || (prioritize.is_some() && self.weight == 0) {
            let message = format!(
                "must be positive, not {}: scores are multiplied by it",
                self.weight
            );
            return Err(("weight", message));
        }
        for managed in &self.managed_resources {
            if managed.api_version.is_empty() || managed.kind.is_empty() {
                let message = "apiVersion and kind are required, as in {apiVersion: apps/v1, kind: Deployment}";
                return Err(("managedResources", message.into()));
            }
        }
        Ok(Validated {
            prefix: prefix.to_owned(),
            filter,
            prioritize,
            preempt,
            bind,
            weight: self.weight,
            tls: self.tls(https)?,
            timeout: self.timeout()?,
            names_only: self.cluster_cache_capable,
            managed: self.managed_resources.clone(),
            ignorable: self.ignorable,
        })
    }

    /// Validates the URL prefix and reports whether it uses TLS.
    fn uses_https(&self, prefix: &str) -> Result<bool, FieldError> {
        let invalid = |message: String| ("urlPrefix", message);
        let example = "use the form http://host:port/path";
        let url: Uri = prefix.parse().map_err(|error| {
            invalid(format!(
                "{:?} is not a URL ({error}): {example}",
                self.url_prefix
            ))
        })?;
        let authority = url
            .authority()
            .ok_or_else(|| invalid(format!("{:?} has no host: {example}", self.url_prefix)))?;
        if authority.as_str().contains('@') {
            return Err(invalid(
                "a user or password in the URL is not supported: use tlsConfig.certFile".into(),
            ));
        }
        if url.query().is_some() {
            return Err(invalid(
                "must not have a query: the verbs are appended".into(),
            ));
        }
        match url.scheme_str() {
            Some("https") => Ok(true),
            Some("http") if self.enable_https => Err((
                "enableHTTPS",
                "the urlPrefix begins with http: make it https".into(),
            )),
            Some("http") => Ok(false),
            _ => Err(invalid(format!(
                "the scheme of {:?} is neither http nor https: {example}",
                self.url_prefix
            ))),
        }
    }

    fn timeout(&self) -> Result<Duration, FieldError> {
        let Some(text) = &self.http_timeout else {
            return Ok(DEFAULT_TIMEOUT);
        };
        match go_duration(text) {
            Ok(Duration::ZERO) => Ok(DEFAULT_TIMEOUT),
            Ok(timeout) => Ok(timeout),
            Err(message) => Err(("httpTimeout", format!("{text:?} {message}"))),
        }
    }

    fn tls(&self, https: bool) -> Result<Option<Tls>, FieldError> {
        let tls = self.tls_config.clone().unwrap_or_default();
        let pem = |field, file: &str, data: &str| {
            Ok(if !data.is_empty() {
                let bytes =
                    decode_base64(data).ok_or_else(|| (field, "is not base64".to_owned()))?;
                Some(Pem::Data(bytes))
            } else if !file.is_empty() {
                Some(Pem::File(PathBuf::from(file)))
            } else {
                None
            })
        };
        let ca = pem("tlsConfig.caData", &tls.ca_file, &tls.ca_data)?;
        let certificate = pem("tlsConfig.certData", &tls.cert_file, &tls.cert_data)?;
        let key = pem("tlsConfig.keyData", &tls.key_file, &tls.key_data)?;
        let identity = match (certificate, key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
            _ => {
                return Err((
                    "tlsConfig",
                    "a client certificate needs its key: set both".into(),
                ));
            }
        };
        let trust = match ca {
            Some(_) if tls.insecure => {
                let message = "insecure accepts any certificate: remove insecure or the authority";
                return Err(("tlsConfig.insecure", message.into()));
            }
            _ if tls.insecure => Trust::Any,
            Some(ca) => Trust::Authorities(ca),
            None => Trust::System,
        };
        let server_name = Some(tls.server_name).filter(|name| !name.is_empty());
        Ok(https.then_some(Tls {
            trust,
            identity,
            server_name,
        }))
    }
}

/// Decodes standard base64. Ignores whitespace.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    let compact: String = text.split_ascii_whitespace().collect();
    base64::engine::general_purpose::STANDARD
        .decode(compact)
        .ok()
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(flag: &bool) -> bool {
    !*flag
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn validated(config: Value) -> Result<Validated, String> {
        let config: ExtenderConfig =
            serde_json::from_value(config).map_err(|error| error.to_string())?;
        let mut all = validate(&[config]).map_err(|error| error.to_string())?;
        Ok(all.remove(0))
    }

    #[test]
    fn absent_fields_have_defaults() {
        let extender =
            validated(json!({ "urlPrefix": "http://x:1/s/", "filterVerb": "/filter" })).unwrap();
        assert_eq!(extender.filter.unwrap(), "http://x:1/s/filter");
        assert_eq!(extender.timeout, Duration::from_secs(5));
        assert!(extender.prioritize.is_none() && extender.bind.is_none() && extender.tls.is_none());
        assert!(!extender.names_only && !extender.ignorable);
        let zero =
            validated(json!({ "urlPrefix": "http://x", "filterVerb": "f", "httpTimeout": "0s" }));
        assert_eq!(zero.unwrap().timeout, Duration::from_secs(5));
    }

    #[test]
    fn errors_name_the_field() {
        for (config, expected) in [
            (
                json!({ "urlPrefix": "http://x", "filterVerb": "f", "nodeCacheCapable": true }),
                "unknown field `nodeCacheCapable`",
            ),
            (
                json!({ "filterVerb": "f" }),
                "extenders[0].urlPrefix: \"\" is not a URL",
            ),
            (
                json!({ "urlPrefix": "x/y", "filterVerb": "f" }),
                "extenders[0].urlPrefix: ",
            ),
            (
                json!({ "urlPrefix": "ftp://x", "filterVerb": "f" }),
                "neither http nor https",
            ),
            (
                json!({ "urlPrefix": "http://me:secret@x", "filterVerb": "f" }),
                "is not supported",
            ),
            (
                json!({ "urlPrefix": "http://x?a=b", "filterVerb": "f" }),
                "must not have a query",
            ),
            (
                json!({ "urlPrefix": "http://x" }),
                "the extender has no verb",
            ),
            (
                json!({ "urlPrefix": "http://x", "prioritizeVerb": "p" }),
                "extenders[0].weight: must be positive, not 0",
            ),
            (
                json!({ "urlPrefix": "http://x", "filterVerb": "f", "weight": -1 }),
                "must be positive, not -1",
            ),
            (
                json!({ "urlPrefix": "http://x", "filterVerb": "f", "httpTimeout": "5" }),
                "extenders[0].httpTimeout: \"5\" must be a duration",
            ),
            (
                json!({ "urlPrefix": "http://x", "filterVerb": "f", "enableHTTPS": true }),
                "extenders[0].enableHTTPS: ",
            ),
            (
                json!({ "urlPrefix": "https://x", "filterVerb": "f", "tlsConfig": { "caFile": "a", "insecure": true } }),
                "tlsConfig.insecure",
            ),
            (
                json!({ "urlPrefix": "https://x", "filterVerb": "f", "tlsConfig": { "certFile": "a" } }),
                "needs its key",
            ),
            (
                json!({ "urlPrefix": "https://x", "filterVerb": "f", "tlsConfig": { "caData": "%" } }),
                "tlsConfig.caData: is not base64",
            ),
            (
                json!({ "urlPrefix": "http://x", "filterVerb": "f", "managedResources": [{ "apiVersion": "v1", "kind": "" }] }),
                "apiVersion and kind are required",
            ),
        ] {
            let error = validated(config.clone()).unwrap_err();
            assert!(error.contains(expected), "{config}: {error}");
        }
    }

    #[test]
    fn only_one_extender_stores_decisions() {
        let config: ExtenderConfig =
            serde_json::from_value(json!({ "urlPrefix": "http://x", "bindVerb": "b" })).unwrap();
        let error = validate(&[config.clone(), config]).unwrap_err();
        assert_eq!(error.path, "extenders[1].bindVerb");
    }

    #[test]
    fn inline_data_takes_precedence_over_a_file() {
        let extender = validated(json!({ "urlPrefix": "https://x", "filterVerb": "f",
            "tlsConfig": { "caFile": "/nowhere", "caData": "cGVt", "serverName": "y" } }))
        .unwrap();
        let tls = extender.tls.unwrap();
        assert_eq!(tls.trust, Trust::Authorities(Pem::Data(b"pem".to_vec())));
        assert_eq!(tls.server_name.as_deref(), Some("y"));
    }

    #[test]
    fn configurations_survive_a_round_trip() {
        let config = json!({ "urlPrefix": "https://x", "prioritizeVerb": "p", "weight": 3, "enableHTTPS": true,
            "httpTimeout": "1s", "clusterCacheCapable": true, "ignorable": true,
            "managedResources": [{ "apiVersion": "apps/v1", "kind": "Deployment" }] });
        let typed: ExtenderConfig = serde_json::from_value(config.clone()).unwrap();
        assert_eq!(serde_json::to_value(typed).unwrap(), config);
    }
}
