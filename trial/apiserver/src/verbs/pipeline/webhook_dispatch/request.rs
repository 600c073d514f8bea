//! The AdmissionRequest of one write: its webhooks, which are found with `webhook_registry`, and the conversion of the
//! objects to the API version that a webhook receives. `calls` sends the AdmissionRequest.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Subject;
use crate::cel::ConditionInput;
use crate::error::ApiError;
use crate::query::FieldValidation;
use crate::registry::Snapshot;
use crate::resource::{Resource, Subresource};
use crate::store::Key;
use crate::table_names::NAMESPACES;
use crate::verbs::delete_options::DeleteOptions;
use crate::verbs::pipeline::WriteKind;
use crate::verbs::version_conversion::{to_served, to_stored};
use crate::verbs::{Call, Origin, scale};
use crate::webhook_registry::configuration::Webhook;
use crate::webhook_registry::rule::{Operation, RequestMatch};
use crate::webhook_registry::{GROUP, Phase};

/// The kind of the objects in the AdmissionRequest.
#[derive(Clone, Copy)]
pub(super) enum ObjectKind {
    /// The kind of the written object, in the API version that the rule of the webhook names.
    Resource,
    /// `Scale`, for a request to the scale subresource.
    Scale,
}

/// The options of the reviewed request.
#[derive(Clone, Copy)]
pub(super) enum Options<'a> {
    /// Options of a create or update, which are in the [`Call`].
    Write,
    Delete(&'a DeleteOptions),
}

/// A request that webhooks review.
pub(super) struct Request<'a> {
    pub(super) call: &'a Call,
    pub(super) resource: Arc<Resource>,
    pub(super) subresource: &'a str,
    pub(super) operation: Operation,
    pub(super) object_kind: ObjectKind,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) dry_run: bool,
    pub(super) options: Options<'a>,
}

/// The new and the old object. The new object of a delete and the old object of a create are null.
#[derive(Clone, Copy)]
pub(super) struct Objects<'a> {
    pub(super) new: &'a Value,
    pub(super) old: &'a Value,
}

/// A webhook that matches the request, and the resource in the API version that the webhook receives.
#[derive(Clone)]
pub(super) struct Invocation {
    pub(super) webhook: Arc<Webhook>,
    pub(super) resource: Arc<Resource>,
}

impl<'a> Request<'a> {
    /// Returns the request for a create or update, or `None` if webhooks do not review the write.
    pub(super) fn write(call: &'a Call, subject: &Subject<'a>) -> Option<Self> {
        let is_binding = call.subresource == Some(Subresource::Binding);
        if is_binding || subject.write == WriteKind::Unowned || exempt(call) {
            return None;
        }
        let operation = if subject.old.is_some() {
            Operation::Update
        } else {
            Operation::Create
        };
        Some(Self {
            call,
            resource: call.resource.clone(),
            subresource: call.subresource.map_or("", Subresource::name),
            operation,
            object_kind: match call.subresource {
                Some(Subresource::Scale) => ObjectKind::Scale,
                _ => ObjectKind::Resource,
            },
            namespace: namespace(call, subject.key),
            name: subject.name,
            dry_run: call.options.dry_run,
            options: Options::Write,
        })
    }

    /// Returns the request for a delete, or `None` if webhooks do not review the delete.
    pub(super) fn delete(call: &'a Call, key: &'a Key, options: &'a DeleteOptions) -> Option<Self> {
        (!exempt(call)).then(|| Self {
            call,
            resource: call.resource.clone(),
            subresource: "",
            operation: Operation::Delete,
            object_kind: ObjectKind::Resource,
            namespace: namespace(call, key),
            // A delete of a collection names no object.
            name: call.name.as_deref().unwrap_or_default(),
            dry_run: options.dry_run,
            options: Options::Delete(options),
        })
    }

    /// Returns the webhooks whose rules match the request, in the order of their configuration names.
    pub(super) fn invocations(&self, phase: Phase) -> Vec<Invocation> {
        let request = RequestMatch {
            operation: self.operation,
            subresource: self.subresource,
        };
        let mut equivalents = None;
        self.call.shared.webhooks.select(phase, |webhook| {
            let resource = if webhook.matches(request, &self.resource) {
                self.resource.clone()
            } else {
                if !webhook.may_match_equivalent(request, &self.resource.plural) {
                    return None;
                }
                let others = equivalents.get_or_insert_with(|| self.equivalents());
                webhook.match_equivalent(request, others)?
            };
            let webhook = webhook.clone();
            Some(Invocation { webhook, resource })
        })
    }

    /// Returns the other versions and groups in which the server serves the objects of the resource.
    fn equivalents(&self) -> Vec<Arc<Resource>> {
        let snapshot: Arc<Snapshot> = self.call.shared.registry.snapshot();
        let own = &self.resource;
        let same = |other: &&Arc<Resource>| {
            other.table == own.table && (&other.group, &other.version) != (&own.group, &own.version)
        };
        snapshot.all().filter(same).cloned().collect()
    }

    /// Reports whether the selectors and match conditions of the webhook match the request.
    pub(super) fn applies(
        &self,
        invocation: &Invocation,
        objects: Objects<'_>,
    ) -> Result<bool, ApiError> {
        let webhook = &invocation.webhook;
        let namespace_selected = self.selects_namespace(webhook, objects);
        if namespace_selected == Ok(false) || !webhook.selects_object([objects.new, objects.old]) {
            return Ok(false);
        }
        namespace_selected?;
        if !webhook.has_conditions() {
            return Ok(true);
        }
        let (new, old) = (
            self.convert(objects.new, &invocation.resource),
            self.convert(objects.old, &invocation.resource),
        );
        let mut request = self.admission_request(invocation);
        if let Some(request) = request.as_object_mut() {
            request.remove("uid");
        }
        let input = ConditionInput {
            object: &new,
            old_object: &old,
            request: &request,
        };
        webhook.evaluate_conditions(input).map_err(|problem| {
            let (group, plural) = (&self.resource.group, &self.resource.plural);
            ApiError::forbidden(group, plural, self.name, &problem)
        })
    }

    fn selects_namespace(&self, webhook: &Webhook, objects: Objects<'_>) -> Result<bool, ApiError> {
        let is_namespace = self.resource.is("", "namespaces");
        if webhook.selects_all_namespaces() || (self.namespace.is_empty() && !is_namespace) {
            return Ok(true);
        }
        let written = matches!(self.operation, Operation::Create | Operation::Update);
        if is_namespace && self.subresource.is_empty() && written {
            return Ok(webhook.selects_namespace(&objects.new["metadata"]["labels"]));
        }
        let namespace = Key::new("", self.namespace);
        match self.call.shared.store.get(NAMESPACES, &namespace) {
            Some(found) => Ok(webhook.selects_namespace(&json!(found.labels))),
            None => Err(ApiError::not_found("", "namespaces", self.namespace)),
        }
    }

    /// Converts an object to the kind and version that a webhook receives. `resource` is the resource in this version.
    pub(super) fn convert(&self, object: &Value, resource: &Resource) -> Value {
        match self.object_kind {
            _ if object.is_null() => Value::Null,
            ObjectKind::Scale => scale::of(object, &self.resource),
            ObjectKind::Resource
                if resource.version != self.resource.version
                    || resource.group != self.resource.group =>
            {
                to_served(to_stored(object.clone(), &self.resource), resource)
            }
            ObjectKind::Resource => object.clone(),
        }
    }

    /// Converts a patched object from the version of the webhook to the version of the request. `object` is the object
    /// before the patch, and `resource` is the resource in the version of the webhook.
    pub(super) fn convert_back(
        &self,
        patched: Value,
        object: &Value,
        resource: &Resource,
    ) -> Result<Value, ApiError> {
        Ok(match self.object_kind {
            ObjectKind::Scale => {
                let mut patched = patched;
                scale::decode(&mut patched).map_err(ApiError::internal)?;
                scale::with_scale(object, &patched, &self.resource)?
            }
            ObjectKind::Resource
                if resource.version != self.resource.version
                    || resource.group != self.resource.group =>
            {
                to_served(to_stored(patched, resource), &self.resource)
            }
            ObjectKind::Resource => patched,
        })
    }

    /// Returns the AdmissionRequest without its uid and its objects.
    pub(super) fn admission_request(&self, invocation: &Invocation) -> Value {
        let kind = |resource: &Resource| match self.object_kind {
            ObjectKind::Resource => gvk(&resource.group, &resource.version, &resource.kind),
            ObjectKind::Scale => gvk("autoscaling", "v1", "Scale"),
        };
        let plural = |of: &Resource| json!({"group": of.group, "version": of.version, "resource": of.plural});
        let mut request = json!({
            "kind": kind(&invocation.resource), "resource": plural(&invocation.resource),
            "requestKind": kind(&self.resource), "requestResource": plural(&self.resource),
            "operation": self.operation.name(), "userInfo": self.call.identity.user_info(),
            "dryRun": self.dry_run, "options": self.options(),
        });
        for (field, value) in [
            ("subResource", self.subresource),
            ("requestSubResource", self.subresource),
            ("name", self.name),
            ("namespace", self.namespace),
        ] {
            if !value.is_empty() {
                request[field] = json!(value);
            }
        }
        request
    }

    /// Returns the options of the request as `CreateOptions`, `UpdateOptions` or `DeleteOptions`.
    fn options(&self) -> Value {
        let kind = match (self.options, self.operation) {
            (Options::Delete(options), _) => return options.to_json(),
            (Options::Write, Operation::Create) => "CreateOptions",
            (Options::Write, _) => "UpdateOptions",
        };
        let options = &self.call.options;
        let mut result = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        if options.dry_run {
            result["dryRun"] = json!(["All"]);
        }
        if options.manager_named {
            result["fieldManager"] = json!(options.field_manager);
        }
        match options.field_validation {
            FieldValidation::Strict => result["fieldValidation"] = json!("Strict"),
            FieldValidation::Ignore => result["fieldValidation"] = json!("Ignore"),
            FieldValidation::Warn => {}
        }
        result
    }
}

/// Reports whether the request is exempt from webhooks: a call with [`Origin::Unreviewed`], or a request on a webhook
/// configuration. Every request is exempt if no webhooks are registered.
fn exempt(call: &Call) -> bool {
    call.shared.webhooks.is_empty()
        || call.origin == Origin::Unreviewed
        || call.resource.group == GROUP
}

fn gvk(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

/// Returns the namespace in the AdmissionRequest. For a Namespace object, returns the name of the object.
fn namespace<'a>(call: &Call, key: &'a Key) -> &'a str {
    if call.resource.is("", "namespaces") {
        &key.name
    } else {
        &key.namespace
    }
}
