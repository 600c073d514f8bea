//! DeleteOptions. They come from the body, or from the query if there is no body.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::codec;
use crate::error::{ApiError, Cause};
use crate::query::Query;
use crate::schema::decode;
use crate::shared::well_known::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER};
use crate::store::{Key, Stored};
use crate::verbs::Call;

const DEFINITION: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// The propagation policy of a delete, which determines the deletion of dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Propagation {
    /// No policy in the request. The finalizers of the object, or else the kind of the object, determine the policy.
    Default,
    Background,
    Foreground,
    Orphan,
}

/// The options of a delete.
#[derive(Debug, Clone)]
pub(crate) struct DeleteOptions {
    pub(super) propagation: Propagation,
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    /// Returns options for deleting an object and, in the background, its dependents.
    pub(crate) fn background() -> Self {
        Self {
            propagation: Propagation::Background,
            uid: None,
            version: None,
            dry_run: false,
        }
    }

    /// Returns options for deleting an object after its dependents.
    pub(crate) fn foreground() -> Self {
        Self {
            propagation: Propagation::Foreground,
            ..Self::background()
        }
    }

    /// Returns the options for deleting an object in the background. If the object has the finalizer `orphan` or
    /// `foregroundDeletion`, this finalizer determines the policy instead.
    pub(crate) fn background_of(object: &Stored) -> Self {
        let has_policy = object
            .finalizers
            .iter()
            .any(|f| f == FOREGROUND_FINALIZER || f == ORPHAN_FINALIZER);
        Self {
            propagation: if has_policy {
                Propagation::Default
            } else {
                Propagation::Background
            },
            ..Self::background()
        }
    }

    /// Returns the options for deleting a dependent in a foreground deletion. The policy is foreground if the dependent
    /// has dependents.
    pub(crate) fn foreground_if(has_dependents: bool) -> Self {
        let propagation = if has_dependents {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        Self {
            propagation,
            ..Self::background()
        }
    }

    pub(super) fn parse(
        call: &Call,
        query: &Query,
        content_type: &str,
        bytes: &Bytes,
    ) -> Result<Self, ApiError> {
        if bytes.is_empty() {
            return Self::of_query(call, query);
        }
        Self::read(codec::object(content_type, bytes)?.value)
    }

    /// Reads options from the JSON value of a body. The value may be null.
    pub(crate) fn read(body: Value) -> Result<Self, ApiError> {
        let kind = body["kind"].as_str().unwrap_or("DeleteOptions");
        let problem = if kind == "DeleteOptions" {
            decode::decode(DEFINITION, &mut body.clone())
        } else {
            Some(format!("{kind} cannot be handled as DeleteOptions"))
        };
        if let Some(problem) = problem {
            return Err(ApiError::bad_request(problem));
        }
        let dry_run = body["dryRun"].as_array().is_some_and(|d| !d.is_empty());
        if dry_run && body["dryRun"] != json!(["All"]) {
            let cause = Cause::not_supported("dryRun", &body["dryRun"], &["All".to_owned()]);
            return Err(invalid(cause));
        }
        let precondition = |name: &str| body["preconditions"][name].as_str().map(str::to_owned);
        Ok(Self {
            propagation: propagation(
                body["propagationPolicy"].as_str(),
                body["orphanDependents"].as_bool(),
            )?,
            uid: precondition("uid"),
            version: precondition("resourceVersion"),
            dry_run,
        })
    }

    /// Returns the `DeleteOptions` object that webhooks receive.
    pub(crate) fn to_json(&self) -> Value {
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
        let policy = match self.propagation {
            Propagation::Default => None,
            Propagation::Background => Some("Background"),
            Propagation::Foreground => Some("Foreground"),
            Propagation::Orphan => Some("Orphan"),
        };
        if let Some(policy) = policy {
            options["propagationPolicy"] = json!(policy);
        }
        for (name, wanted) in [("uid", &self.uid), ("resourceVersion", &self.version)] {
            if let Some(wanted) = wanted {
                options["preconditions"][name] = json!(wanted);
            }
        }
        if self.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        options
    }

    /// Checks the preconditions on uid and resourceVersion.
    pub(crate) fn check(
        &self,
        call: &Call,
        key: &Key,
        uid: &str,
        version: &str,
    ) -> Result<(), ApiError> {
        for (field, wanted, found) in [
            ("UID", &self.uid, uid),
            ("ResourceVersion", &self.version, version),
        ] {
            if let Some(wanted) = wanted.as_ref().filter(|wanted| *wanted != found) {
                let message = format!(
                    "the {field} in the precondition ({wanted}) does not match the {field} in record ({found})"
                );
                // This conflict names the kind, and other conflicts name the resource.
                let (group, kind) = (&call.resource.group, &call.resource.kind);
                return Err(ApiError::conflict(group, kind, &key.name, &message));
            }
        }
        Ok(())
    }

    fn of_query(call: &Call, query: &Query) -> Result<Self, ApiError> {
        query.integer("gracePeriodSeconds")?;
        let orphan = query.has("orphanDependents");
        Ok(Self {
            propagation: propagation(
                query.get("propagationPolicy"),
                orphan.then(|| query.flag("orphanDependents")),
            )?,
            dry_run: call.options.dry_run,
            ..Self::background()
        })
    }
}

fn propagation(policy: Option<&str>, orphan: Option<bool>) -> Result<Propagation, ApiError> {
    const FIELD: &str = "propagationPolicy";
    match (policy, orphan) {
        (Some(policy), Some(_)) => {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            Err(invalid(Cause::invalid(FIELD, &json!(policy), detail)))
        }
        (Some("Background"), _) | (None, Some(false)) => Ok(Propagation::Background),
        (Some("Foreground"), _) => Ok(Propagation::Foreground),
        (Some("Orphan"), _) | (None, Some(true)) => Ok(Propagation::Orphan),
        (None, None) => Ok(Propagation::Default),
        (Some(other), _) => {
            let allowed = ["Foreground", "Background", "Orphan", "nil"].map(str::to_owned);
            Err(invalid(Cause::not_supported(
                FIELD,
                &json!(other),
                &allowed,
            )))
        }
    }
}

fn invalid(cause: Cause) -> ApiError {
    ApiError::invalid("meta.k8s.io", "DeleteOptions", "", vec![cause])
}
