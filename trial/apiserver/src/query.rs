//! Query parameters of a request.
//!
//! This module must not know which effect a parameter has on a request.

use std::collections::HashMap;
use std::num::{IntErrorKind, ParseIntError};
use std::time::Duration;

use http::{Method, Uri};
use serde_json::json;

use crate::error::{ApiError, Cause};
use crate::{go_text, percent_encoding};

/// Maximum length of the name of a field manager, in bytes.
const MAX_MANAGER: usize = 128;

/// The handling of unknown and duplicate fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// Options common to all writes.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) field_manager: String,
    /// True if the client set `fieldManager`. Otherwise the manager comes from the user agent.
    pub(crate) manager_named: bool,
    pub(crate) field_validation: FieldValidation,
    pub(crate) force: bool,
}

/// The version of the store at which a list must be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListVersion {
    Latest,
    NotOlderThan(u64),
    Exactly(u64),
}

/// The parameters of one request.
#[derive(Debug)]
pub(crate) struct Query(HashMap<String, Vec<String>>);

impl Query {
    /// Parses the query of a URI. Malformed parameters are ignored.
    pub(crate) fn parse(uri: &Uri) -> Self {
        let readable = |pair: &&str| !pair.contains(';') && percent_encoding::is_well_formed(pair);
        let mut all: HashMap<String, Vec<String>> = HashMap::new();
        let text = uri.query().unwrap_or_default();
        for pair in text.split('&').filter(readable) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let [name, value] = [name, value]
                .map(|text| percent_encoding::decode(&text.replace('+', " ")).into_owned());
            all.entry(name).or_default().push(value);
        }
        Self(all)
    }

    /// Returns all values of a parameter.
    pub(crate) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.get(name).into_iter().flatten().map(String::as_str)
    }

    /// Returns the first value of a parameter, even if it is empty.
    fn first(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Returns the first value of a parameter, unless it is empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.first(name).filter(|v| !v.is_empty())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Reports whether a boolean parameter is true. Any value except `0` and `false` is true.
    pub(crate) fn flag(&self, name: &str) -> bool {
        let text = self.first(name);
        text.is_some_and(|text| text != "0" && !text.eq_ignore_ascii_case("false"))
    }

    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let parse = |text: &str| {
            text.parse().map_err(|error: ParseIntError| {
                let message = match error.kind() {
                    IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                    _ => "invalid syntax",
                };
                ApiError::bad_request(format!("strconv.ParseInt: parsing \"{text}\": {message}"))
            })
        };
        self.get(name).map(parse).transpose()
    }

    /// Returns the requested duration of a watch.
    pub(crate) fn watch_timeout(&self) -> Result<Option<Duration>, ApiError> {
        let seconds = self.integer("timeoutSeconds")?;
        let timeout = |s| Duration::from_secs(u64::try_from(s).unwrap_or_default());
        Ok(seconds.filter(|s| *s != 0).map(timeout))
    }

    /// Returns the requested timeout of a request.
    pub(crate) fn timeout(&self) -> Result<Option<Duration>, ApiError> {
        let Some(text) = self.get("timeout") else {
            return Ok(None);
        };
        let nanos = go_text::duration(text).map_err(|message| {
            ApiError::bad_request(format!(
                "invalid timeout specified in the request URL - {message}"
            ))
        })?;
        let nanos = u64::try_from(nanos).unwrap_or_default();
        Ok((nanos > 0).then(|| Duration::from_nanos(nanos)))
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.flag("watch")
    }

    /// Returns the requested `resourceVersion`, or the problem if it is malformed.
    pub(crate) fn resource_version(&self) -> Result<Option<u64>, String> {
        let parse = |text: &str| {
            text.parse().map_err(|_| {
                format!(
                    "resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"
                )
            })
        };
        self.get("resourceVersion").map(parse).transpose()
    }

    /// Returns the version at which a list must be read.
    pub(crate) fn list_version(&self) -> Result<ListVersion, String> {
        let version = self.resource_version()?;
        Ok(match (self.get("resourceVersionMatch"), version) {
            (Some("Exact"), Some(version)) => ListVersion::Exactly(version),
            (_, None | Some(0)) => ListVersion::Latest,
            (_, Some(version)) => ListVersion::NotOlderThan(version),
        })
    }

    /// Parses the options of a write with this method. A read has no such options.
    pub(crate) fn write_options(
        &self,
        method: &Method,
        user_agent: &str,
    ) -> Result<WriteOptions, ApiError> {
        let kind = match *method {
            Method::POST => "CreateOptions",
            Method::PUT => "UpdateOptions",
            Method::PATCH => "PatchOptions",
            Method::DELETE => "DeleteOptions",
            _ => "",
        };
        let refused = |cause| Err(ApiError::invalid("meta.k8s.io", kind, "", vec![cause]));
        let allowed = |values: &[&str]| values.iter().map(|&v| v.to_owned()).collect::<Vec<_>>();
        let mut dry_runs = self.all("dryRun").peekable();
        let dry_run = dry_runs.peek().is_some() && !kind.is_empty();
        if dry_run && dry_runs.any(|text| text != "All") {
            let all: Vec<&str> = self.all("dryRun").collect();
            let cause = Cause::not_supported("dryRun", &json!(all), &allowed(&["All"]));
            return refused(cause);
        }
        // A delete ignores `fieldManager` and `fieldValidation`.
        let checks_fields = !kind.is_empty() && *method != Method::DELETE;
        let field_validation = match self.get("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Strict") => FieldValidation::Strict,
            Some("Ignore") => FieldValidation::Ignore,
            Some(_) if !checks_fields => FieldValidation::Warn,
            Some(other) => {
                let allowed = allowed(&["", "Ignore", "Strict", "Warn"]);
                let cause = Cause::not_supported("fieldValidation", &json!(other), &allowed);
                return refused(cause);
            }
        };
        if checks_fields
            && self
                .get("fieldManager")
                .is_some_and(|name| name.len() > MAX_MANAGER)
        {
            let most = u64::try_from(MAX_MANAGER).unwrap_or_default();
            return refused(Cause::too_long("fieldManager", most));
        }
        let named = self.get("fieldManager");
        let control = named.and_then(|name| name.char_indices().find(|(_, c)| c.is_control()));
        if let (true, Some((at, control))) = (checks_fields, control) {
            let detail = format!(
                "invalid character U+{:04X} (at position {at})",
                u32::from(control)
            );
            return refused(Cause::invalid("fieldManager", &json!(named), &detail));
        }
        let field_manager = named.map_or_else(
            || match user_agent.split('/').next() {
                Some(product) if !product.is_empty() => product.to_owned(),
                _ => "unknown".to_owned(),
            },
            str::to_owned,
        );
        Ok(WriteOptions {
            dry_run,
            field_manager,
            manager_named: named.is_some(),
            field_validation,
            force: self.flag("force"),
        })
    }
}
