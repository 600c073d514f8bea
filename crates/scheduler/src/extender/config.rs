//! What the configuration file says of an extender, and what is checked of it.
//!
//! The fields are those of kube-scheduler's extenders, with clusters in place of nodes.

use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tls::{Identity, Pem, Tls, Trust};
use crate::go_duration::go_duration;

/// How long an answer is waited for where nothing else is said.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// An HTTP extender: a server that filters and scores clusters, narrows preemptions, or stores decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("required" = ["urlPrefix"]))]
pub struct ExtenderConfig {
    /// Where the extender is, as `http://127.0.0.1:8888/scheduler`; the verbs are appended after a slash.
    pub url_prefix: String,
    /// The verb of filter calls. Empty: the extender does not filter.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub filter_verb: String,
    /// The verb of prioritize calls. Empty: the extender does not score.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prioritize_verb: String,
    /// The verb of preempt calls. Empty: the extender is not asked about preemptions.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preempt_verb: String,
    /// The verb of bind calls. Empty: the extender does not store decisions. One extender at most does.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bind_verb: String,
    /// What its scores are multiplied by; must be positive with a `prioritizeVerb`.
    #[serde(skip_serializing_if = "is_zero")]
    pub weight: i64,
    /// Whether the extender must be spoken to over TLS: a `urlPrefix` that says `http` is refused then.
    #[serde(rename = "enableHTTPS", skip_serializing_if = "is_false")]
    pub enable_https: bool,
    /// How connections are secured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_config: Option<ExtenderTls>,
    /// How long an answer is waited for, as `500ms` or `5s`; 5 s where it is 0 or not said.
    #[serde(rename = "httpTimeout", skip_serializing_if = "Option::is_none")]
    pub http_timeout: Option<String>,
    /// Whether the extender knows the clusters itself: it is sent their names only.
    #[serde(skip_serializing_if = "is_false")]
    pub cluster_cache_capable: bool,
    /// The extender is asked about bindings of these resources only; about all where the list is empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub managed_resources: Vec<ManagedResource>,
    /// Whether bindings are scheduled without the extender when it fails.
    #[serde(skip_serializing_if = "is_false")]
    pub ignorable: bool,
}

/// A kind of resource: bindings of such templates concern the extender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManagedResource {
    /// Group and version, as `apps/v1`.
    #[schemars(length(min = 1))]
    pub api_version: String,
    /// The kind, as `Deployment`.
    #[schemars(length(min = 1))]
    pub kind: String,
}

/// How connections to an extender are secured. Of a file and its data, the data wins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ExtenderTls {
    /// Takes any certificate. For tests only, and not together with a certificate authority.
    #[serde(skip_serializing_if = "is_false")]
    pub insecure: bool,
    /// The name that the extender's certificate is for; that of the `urlPrefix` where none is given.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub server_name: String,
    /// The file of the certificate that the extender is shown, in PEM.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cert_file: String,
    /// The file of that certificate's key, in PEM.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key_file: String,
    /// The file of the authorities that sign the extender's certificate, in PEM; those that the system trusts
    /// where none are given.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ca_file: String,
    /// As `certFile`, but the text itself in base64.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cert_data: String,
    /// As `keyFile`, but the text itself in base64.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key_data: String,
    /// As `caFile`, but the text itself in base64.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ca_data: String,
}

/// What is wrong with the extenders of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct ExtenderConfigError {
    /// Where, as `extenders[1].weight`.
    pub path: String,
    /// What is wrong, and what to do.
    pub message: String,
}

/// One thing that an extender does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Keeps clusters out.
    Filter,
    /// Scores clusters.
    Prioritize,
    /// Narrows what may be preempted.
    Preempt,
    /// Stores decisions.
    Bind,
}

impl Verb {
    /// As metrics and messages name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Prioritize => "prioritize",
            Self::Preempt => "preempt",
            Self::Bind => "bind",
        }
    }
}

/// An extender as checked.
#[derive(Clone, Debug)]
pub(super) struct Checked {
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

/// Checks all extenders of a configuration.
///
/// # Errors
/// The first thing that is wrong.
pub(super) fn check(configs: &[ExtenderConfig]) -> Result<Vec<Checked>, ExtenderConfigError> {
    let mut checked = Vec::with_capacity(configs.len());
    for (index, config) in configs.iter().enumerate() {
        let extender = config.check().map_err(|(field, message)| {
            let path = format!("extenders[{index}].{field}");
            ExtenderConfigError { path, message }
        })?;
        if extender.bind.is_some() && checked.iter().any(|one: &Checked| one.bind.is_some()) {
            return Err(ExtenderConfigError {
                path: format!("extenders[{index}].bindVerb"),
                message: "an earlier extender has a bindVerb already: only one can store decisions"
                    .into(),
            });
        }
        checked.push(extender);
    }
    Ok(checked)
}

type Wrong = (&'static str, String);

impl ExtenderConfig {
    fn check(&self) -> Result<Checked, Wrong> {
        let prefix = self.url_prefix.trim_end_matches('/');
        let https = self.scheme(prefix)?;
        let verb = |field: &'static str, verb: &str| {
            if verb.is_empty() {
                return Ok(None);
            }
            let url = format!("{prefix}/{}", verb.trim_start_matches('/'));
            let url: Uri = url
                .parse()
                .map_err(|error| (field, format!("{url:?} is no URL: {error}")))?;
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
        Ok(Checked {
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

    /// Whether the URL asks for TLS.
    fn scheme(&self, prefix: &str) -> Result<bool, Wrong> {
        let wrong = |message: String| ("urlPrefix", message);
        let example = "give it as http://host:port/path";
        let url: Uri = prefix.parse().map_err(|error| {
            wrong(format!(
                "{:?} is no URL ({error}): {example}",
                self.url_prefix
            ))
        })?;
        let authority = url
            .authority()
            .ok_or_else(|| wrong(format!("{:?} names no host: {example}", self.url_prefix)))?;
        if authority.as_str().contains('@') {
            return Err(wrong(
                "a user or password in the URL is not sent: use tlsConfig.certFile".into(),
            ));
        }
        if url.query().is_some() {
            return Err(wrong(
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
            _ => Err(wrong(format!(
                "{:?} is neither http nor https: {example}",
                self.url_prefix
            ))),
        }
    }

    fn timeout(&self) -> Result<Duration, Wrong> {
        let Some(text) = &self.http_timeout else {
            return Ok(DEFAULT_TIMEOUT);
        };
        match go_duration(text) {
            Ok(Duration::ZERO) => Ok(DEFAULT_TIMEOUT),
            Ok(timeout) => Ok(timeout),
            Err(message) => Err(("httpTimeout", format!("{text:?} {message}"))),
        }
    }

    fn tls(&self, https: bool) -> Result<Option<Tls>, Wrong> {
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
                    "a certificate and its key belong together: give both".into(),
                ));
            }
        };
        let trust = match ca {
            Some(_) if tls.insecure => {
                let message =
                    "insecure takes any certificate: leave out either it or the authority";
                return Err(("tlsConfig.insecure", message.into()));
            }
            _ if tls.insecure => Trust::Anybody,
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

/// Standard base64; line breaks, as tools insert them, do not count.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    let compact: String = text.split_ascii_whitespace().collect();
    base64::engine::general_purpose::STANDARD
        .decode(compact)
        .ok()
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for references"
)]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for references"
)]
fn is_false(flag: &bool) -> bool {
    !*flag
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn checked(config: Value) -> Result<Checked, String> {
        let config: ExtenderConfig =
            serde_json::from_value(config).map_err(|error| error.to_string())?;
        let mut all = check(&[config]).map_err(|error| error.to_string())?;
        Ok(all.remove(0))
    }

    #[test]
    fn what_is_not_said_has_the_usual_defaults() {
        let extender =
            checked(json!({ "urlPrefix": "http://x:1/s/", "filterVerb": "/filter" })).unwrap();
        assert_eq!(extender.filter.unwrap(), "http://x:1/s/filter");
        assert_eq!(extender.timeout, Duration::from_secs(5));
        assert!(extender.prioritize.is_none() && extender.bind.is_none() && extender.tls.is_none());
        assert!(!extender.names_only && !extender.ignorable);
        let zero =
            checked(json!({ "urlPrefix": "http://x", "filterVerb": "f", "httpTimeout": "0s" }));
        assert_eq!(zero.unwrap().timeout, Duration::from_secs(5));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (config, expected) in [
            (
                json!({ "urlPrefix": "http://x", "filterVerb": "f", "nodeCacheCapable": true }),
                "unknown field `nodeCacheCapable`",
            ),
            (
                json!({ "filterVerb": "f" }),
                "extenders[0].urlPrefix: \"\" is no URL",
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
                "is not sent",
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
                "belong together",
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
            let error = checked(config.clone()).unwrap_err();
            assert!(error.contains(expected), "{config}: {error}");
        }
    }

    #[test]
    fn only_one_extender_stores_decisions() {
        let config: ExtenderConfig =
            serde_json::from_value(json!({ "urlPrefix": "http://x", "bindVerb": "b" })).unwrap();
        let error = check(&[config.clone(), config]).unwrap_err();
        assert_eq!(error.path, "extenders[1].bindVerb");
    }

    #[test]
    fn of_a_file_and_its_data_the_data_wins() {
        let extender = checked(json!({ "urlPrefix": "https://x", "filterVerb": "f",
            "tlsConfig": { "caFile": "/nowhere", "caData": "cGVt", "serverName": "y" } }))
        .unwrap();
        let tls = extender.tls.unwrap();
        assert_eq!(tls.trust, Trust::Authorities(Pem::Data(b"pem".to_vec())));
        assert_eq!(tls.server_name.as_deref(), Some("y"));
    }

    #[test]
    fn what_is_written_reads_back() {
        let config = json!({ "urlPrefix": "https://x", "prioritizeVerb": "p", "weight": 3, "enableHTTPS": true,
            "httpTimeout": "1s", "clusterCacheCapable": true, "ignorable": true,
            "managedResources": [{ "apiVersion": "apps/v1", "kind": "Deployment" }] });
        let typed: ExtenderConfig = serde_json::from_value(config.clone()).unwrap();
        assert_eq!(serde_json::to_value(typed).unwrap(), config);
    }
}
