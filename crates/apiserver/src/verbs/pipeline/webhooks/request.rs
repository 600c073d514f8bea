//! A request, as webhooks are asked about it: which of them it concerns, and what they are sent.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Part;
use crate::error::ApiError;
use crate::http::query::FieldValidation;
use crate::registry::{Resource, Snapshot};
use crate::schema::rules::About;
use crate::store::Key;
use crate::verbs::pipeline::Write;
use crate::verbs::pipeline::admission::Subject;
use crate::verbs::view::{to_stored, to_view};
use crate::verbs::{Call, Origin, Subresource, delete, scale};
use crate::webhooks::configuration::Webhook;
use crate::webhooks::matching::{Asked, Operation};
use crate::webhooks::{GROUP, Phase};

/// The form in which webhooks are sent objects.
#[derive(Clone, Copy)]
pub(super) enum Form<'a> {
    /// The kind of the resource, in the version that a rule names.
    Own,
    /// The `Scale` of the object.
    Scale,
    /// Another kind.
    Part((&'a str, &'a str, &'a str)),
}

/// The options of a request.
#[derive(Clone, Copy)]
pub(super) enum Options<'a> {
    Write,
    Delete(&'a delete::Options),
    None,
}

/// A request, as webhooks are asked about it.
pub(super) struct Request<'a> {
    pub(super) call: &'a Call,
    pub(super) resource: Arc<Resource>,
    pub(super) subresource: &'a str,
    pub(super) operation: Operation,
    pub(super) form: Form<'a>,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) dry_run: bool,
    pub(super) options: Options<'a>,
}

/// Old and new object; null where there is none.
#[derive(Clone, Copy)]
pub(super) struct Objects<'a> {
    pub(super) new: &'a Value,
    pub(super) old: &'a Value,
}

/// A webhook that is to be called, and the version of the resource that it is called with.
#[derive(Clone)]
pub(super) struct Invocation {
    pub(super) webhook: Arc<Webhook>,
    pub(super) resource: Arc<Resource>,
}

impl<'a> Request<'a> {
    /// A write of the object itself or of a stored part of it, if webhooks may be asked about it.
    pub(super) fn write(call: &'a Call, subject: &Subject<'a>) -> Option<Self> {
        let bound = call.subresource == Some(Subresource::Binding);
        if bound || subject.write == Write::Unowned || exempt(call) {
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
            form: match call.subresource {
                Some(Subresource::Scale) => Form::Scale,
                _ => Form::Own,
            },
            namespace: namespace(call, subject.key),
            name: subject.name,
            dry_run: call.options.dry_run,
            options: Options::Write,
        })
    }

    pub(super) fn delete(
        call: &'a Call,
        key: &'a Key,
        options: &'a delete::Options,
    ) -> Option<Self> {
        (!exempt(call)).then(|| Self {
            call,
            resource: call.resource.clone(),
            subresource: "",
            operation: Operation::Delete,
            form: Form::Own,
            namespace: namespace(call, key),
            // Of a collection no name is asked for.
            name: call.name.as_deref().unwrap_or_default(),
            dry_run: options.dry_run,
            options: Options::Delete(options),
        })
    }

    pub(super) fn part(call: &'a Call, part: &'a Part<'a>, operation: Operation) -> Option<Self> {
        if exempt(call) {
            return None;
        }
        let snapshot = call.shared.registry.snapshot();
        let resource = snapshot.by_table.get(part.table)?.clone();
        Some(Self {
            call,
            resource,
            subresource: part.subresource,
            operation,
            form: Form::Part(part.kind),
            namespace: call.namespace.as_deref().unwrap_or_default(),
            name: call.name.as_deref().unwrap_or_default(),
            dry_run: operation == Operation::Create && call.options.dry_run,
            options: match operation {
                Operation::Connect => Options::None,
                _ => Options::Write,
            },
        })
    }

    /// Returns the webhooks whose rules name the request, in order.
    pub(super) fn invocations(&self, phase: Phase) -> Vec<Invocation> {
        let asked = Asked {
            operation: self.operation,
            subresource: self.subresource,
        };
        let mut equivalents = None;
        self.call.shared.webhooks.select(phase, |webhook| {
            let resource = if webhook.concerns(asked, &self.resource) {
                self.resource.clone()
            } else {
                if !webhook.may_concern_equivalent(asked, &self.resource.plural) {
                    return None;
                }
                let others = equivalents.get_or_insert_with(|| self.equivalents());
                webhook.concerns_equivalent(asked, others)?
            };
            let webhook = webhook.clone();
            Some(Invocation { webhook, resource })
        })
    }

    /// The same resource in other versions and groups.
    fn equivalents(&self) -> Vec<Arc<Resource>> {
        let snapshot: Arc<Snapshot> = self.call.shared.registry.snapshot();
        let own = &self.resource;
        let same = |other: &&Arc<Resource>| {
            other.table == own.table && (&other.group, &other.version) != (&own.group, &own.version)
        };
        snapshot.all().filter(same).cloned().collect()
    }

    /// Reports whether selectors and conditions of the webhook let it be called.
    pub(super) fn applies(
        &self,
        invocation: &Invocation,
        objects: Objects<'_>,
    ) -> Result<bool, ApiError> {
        let webhook = &invocation.webhook;
        let of_namespace = self.selects_namespace(webhook, objects);
        if of_namespace == Ok(false) || !webhook.selects_object([objects.new, objects.old]) {
            return Ok(false);
        }
        of_namespace?;
        if !webhook.has_conditions() {
            return Ok(true);
        }
        let (new, old) = (
            self.sent(objects.new, &invocation.resource),
            self.sent(objects.old, &invocation.resource),
        );
        let mut request = self.shown(invocation);
        if let Some(request) = request.as_object_mut() {
            request.remove("uid");
        }
        let about = About {
            object: &new,
            old_object: &old,
            request: &request,
        };
        webhook.conditions_hold(about).map_err(|problem| {
            let (group, plural) = (&self.resource.group, &self.resource.plural);
            ApiError::forbidden(group, plural, self.name, &problem)
        })
    }

    fn selects_namespace(&self, webhook: &Webhook, objects: Objects<'_>) -> Result<bool, ApiError> {
        let is_namespace = self.resource.is("", "namespaces");
        if webhook.is_everywhere() || (self.namespace.is_empty() && !is_namespace) {
            return Ok(true);
        }
        let written = matches!(self.operation, Operation::Create | Operation::Update);
        if is_namespace && self.subresource.is_empty() && written {
            return Ok(webhook.selects_namespace(&objects.new["metadata"]["labels"]));
        }
        let namespace = Key::new("", self.namespace);
        match self.call.shared.store.get("namespaces", &namespace) {
            Some(found) => Ok(webhook.selects_namespace(&json!(found.labels))),
            None => Err(ApiError::not_found("", "namespaces", self.namespace)),
        }
    }

    /// An object as the webhook is sent it.
    pub(super) fn sent(&self, object: &Value, resource: &Resource) -> Value {
        match self.form {
            _ if object.is_null() => Value::Null,
            Form::Scale => scale::of(object, &self.resource),
            Form::Own
                if resource.version != self.resource.version
                    || resource.group != self.resource.group =>
            {
                to_view(to_stored(object.clone(), &self.resource), resource)
            }
            Form::Own | Form::Part(_) => object.clone(),
        }
    }

    /// The object that a patched one stands for.
    pub(super) fn taken(
        &self,
        patched: Value,
        object: &Value,
        resource: &Resource,
    ) -> Result<Value, ApiError> {
        Ok(match self.form {
            Form::Scale => {
                let mut patched = patched;
                if let Some(problem) = scale::problem(&mut patched) {
                    return Err(ApiError::internal(problem));
                }
                scale::put(object, &patched, &self.resource)?
            }
            Form::Own
                if resource.version != self.resource.version
                    || resource.group != self.resource.group =>
            {
                to_view(to_stored(patched, resource), &self.resource)
            }
            Form::Own | Form::Part(_) => patched,
        })
    }

    /// The `request` of a review, without its objects.
    pub(super) fn shown(&self, invocation: &Invocation) -> Value {
        let kind = |resource: &Resource| match self.form {
            Form::Own => gvk(&resource.group, &resource.version, &resource.kind),
            Form::Scale => gvk("autoscaling", "v1", "Scale"),
            Form::Part((group, version, kind)) => gvk(group, version, kind),
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

    /// The options of the request, in the kind that belongs to what it does.
    fn options(&self) -> Value {
        let kind = match (self.options, self.operation) {
            (Options::None, _) => return Value::Null,
            (Options::Delete(options), _) => return options.shown(),
            (Options::Write, Operation::Create) => "CreateOptions",
            (Options::Write, _) => "UpdateOptions",
        };
        let sent = &self.call.options;
        let mut shown = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        if sent.dry_run {
            shown["dryRun"] = json!(["All"]);
        }
        if sent.manager_named {
            shown["fieldManager"] = json!(sent.field_manager);
        }
        match sent.field_validation {
            FieldValidation::Strict => shown["fieldValidation"] = json!("Strict"),
            FieldValidation::Ignore => shown["fieldValidation"] = json!("Ignore"),
            FieldValidation::Warn => {}
        }
        shown
    }
}

/// True for requests that no webhook is asked about: steps of others, and the configurations of webhooks.
fn exempt(call: &Call) -> bool {
    call.shared.webhooks.is_empty() || call.origin == Origin::Step || call.resource.group == GROUP
}

fn gvk(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

/// The namespace of a request; that of a namespace is itself.
fn namespace<'a>(call: &Call, key: &'a Key) -> &'a str {
    if call.resource.is("", "namespaces") {
        &key.name
    } else {
        &key.namespace
    }
}
