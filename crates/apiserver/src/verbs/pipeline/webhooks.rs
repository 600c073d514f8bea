//! A request in front of its admission webhooks: mutating ones one after the other, validating ones together.
//!
//! What a webhook is sent is a request of a resource in the version that its rule names; what it answers with is a
//! refusal or a patch. It must not know how webhooks are reached.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;

use super::Write;
use super::admission::{Reviewed, Subject};
use crate::error::{ApiError, Reason};
use crate::http::load;
use crate::http::query::FieldValidation;
use crate::patch::json::Operations;
use crate::registry::{Resource, Snapshot};
use crate::schema::rules::About;
use crate::store::Key;
use crate::verbs::view::{to_stored, to_view};
use crate::verbs::{Call, Origin, Subresource, delete, scale};
use crate::webhooks::client::Client;
use crate::webhooks::configuration::{FailurePolicy, Webhook};
use crate::webhooks::matching::{Asked, Operation};
use crate::webhooks::review::{self, Verdict};
use crate::webhooks::{GROUP, Phase};

/// What a subresource that is not stored is sent as.
pub(crate) struct Part<'a> {
    /// The table of the resource that it belongs to.
    table: &'a str,
    subresource: &'a str,
    /// Group, version and kind of what is sent.
    kind: (&'a str, &'a str, &'a str),
}

impl<'a> Part<'a> {
    pub(crate) fn new(
        table: &'a str,
        subresource: &'a str,
        kind: (&'a str, &'a str, &'a str),
    ) -> Self {
        Self {
            table,
            subresource,
            kind,
        }
    }
}

/// The form in which webhooks are sent objects.
#[derive(Clone, Copy)]
enum Form<'a> {
    /// The kind of the resource, in the version that a rule names.
    Own,
    /// The `Scale` of the object.
    Scale,
    /// Another kind.
    Part((&'a str, &'a str, &'a str)),
}

/// The options of a request.
#[derive(Clone, Copy)]
enum Options<'a> {
    Write,
    Delete(&'a delete::Options),
    None,
}

/// A request, as webhooks are asked about it.
struct Request<'a> {
    call: &'a Call,
    resource: Arc<Resource>,
    subresource: &'a str,
    operation: Operation,
    form: Form<'a>,
    namespace: &'a str,
    name: &'a str,
    dry_run: bool,
    options: Options<'a>,
}

/// Old and new object; null where there is none.
#[derive(Clone, Copy)]
struct Objects<'a> {
    new: &'a Value,
    old: &'a Value,
}

/// A webhook that is to be called, and the version of the resource that it is called with.
#[derive(Clone)]
struct Invocation {
    webhook: Arc<Webhook>,
    resource: Arc<Resource>,
}

/// Why a webhook does not let a request pass.
enum Problem {
    /// The webhook could not be called, or its answer cannot be used.
    Call(String),
    Refusal(ApiError),
}

impl<'a> Request<'a> {
    /// A write of the object itself or of a stored part of it, if webhooks may be asked about it.
    fn write(call: &'a Call, subject: &Subject<'a>) -> Option<Self> {
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

    fn delete(call: &'a Call, key: &'a Key, options: &'a delete::Options) -> Option<Self> {
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

    fn part(call: &'a Call, part: &'a Part<'a>, operation: Operation) -> Option<Self> {
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
    fn invocations(&self, phase: Phase) -> Vec<Invocation> {
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
    fn applies(&self, invocation: &Invocation, objects: Objects<'_>) -> Result<bool, ApiError> {
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
    fn sent(&self, object: &Value, resource: &Resource) -> Value {
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
    fn taken(
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
    fn shown(&self, invocation: &Invocation) -> Value {
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

    /// Asks one webhook.
    async fn ask(
        &self,
        phase: Phase,
        invocation: &Invocation,
        objects: Objects<'_>,
    ) -> Result<Verdict, Problem> {
        let webhook = &*invocation.webhook;
        if self.dry_run && !webhook.dry_run {
            let why = format!(
                "admission webhook \"{}\" does not support dry run",
                webhook.name
            );
            return Err(Problem::Refusal(ApiError::bad_request(why)));
        }
        let timeout = webhook.timeout.min(self.time_left()?);
        let mut request = self.shown(invocation);
        request["object"] = self.sent(objects.new, &invocation.resource);
        request["oldObject"] = self.sent(objects.old, &invocation.resource);
        let uid = uuid::Uuid::new_v4().to_string();
        let body = review::review(webhook.version, &uid, request);
        let shared = &self.call.shared;
        let client = webhook.client(|target| Client::new(target, shared));
        let client = client.map_err(Problem::Call)?;
        let answer = client.post(body.to_string().into_bytes(), timeout).await;
        let answer = answer.map_err(Problem::Call)?;
        let verdict = review::verdict(webhook.version, phase, &uid, &answer)
            .map_err(|why| Problem::Call(format!("received invalid webhook response: {why}")))?;
        let mut warnings = self.call.warnings.lock();
        for warning in &verdict.warnings {
            if !warnings.contains(warning) {
                warnings.push(warning.clone());
            }
        }
        drop(warnings);
        match &verdict.refusal {
            Some(status) => Err(Problem::Refusal(review::denied(&webhook.name, status))),
            None => Ok(verdict),
        }
    }

    /// How long the client still waits.
    fn time_left(&self) -> Result<Duration, Problem> {
        let left = self.call.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let why = "request did not complete within requested timeout";
            return Err(Problem::Refusal(ApiError::new(Reason::Timeout, why)));
        }
        Ok(left)
    }

    /// Lets a failed call pass if the webhook's policy says so.
    fn judge(&self, webhook: &Webhook, problem: Problem) -> Result<(), ApiError> {
        let why = match problem {
            Problem::Refusal(error) => return Err(error),
            Problem::Call(why) => why,
        };
        let why = format!("failed calling webhook \"{}\": {why}", webhook.name);
        tracing::warn!(policy = ?webhook.failure_policy, "{why}");
        match webhook.failure_policy {
            FailurePolicy::Fail => Err(ApiError::internal(why)),
            FailurePolicy::Ignore => match self.time_left() {
                Err(Problem::Refusal(error)) => Err(error),
                _ => Ok(()),
            },
        }
    }

    /// A turn to wait for webhooks. Tasks of the server are few and hold no place of a client.
    fn turn(&self) -> Result<Option<SemaphorePermit<'a>>, ApiError> {
        if self.call.origin == Origin::Task {
            return Ok(None);
        }
        let turn = self.call.shared.webhook_turns.take();
        turn.map(Some).ok_or_else(load::too_many)
    }

    /// Calls the mutating webhooks, one after the other. `settle` completes an object that was changed.
    async fn mutate(
        &self,
        object: &mut Value,
        old: &Value,
        settle: &(dyn Fn(&mut Value) -> Result<(), ApiError> + Send + Sync),
    ) -> Result<Reviewed, ApiError> {
        let invocations = self.invocations(Phase::Mutating);
        if invocations.is_empty() {
            return Ok(Reviewed::No);
        }
        let _turn = self.turn()?;
        // Webhooks to call again if a later one changes the object, and those for which that has happened.
        let (mut called, mut again): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        for (at, invocation) in invocations.iter().enumerate() {
            let objects = Objects { new: object, old };
            if !self.applies(invocation, objects)? {
                continue;
            }
            if self.call_one(invocation, object, old, settle).await? {
                again.append(&mut called);
            }
            if invocation.webhook.reinvoked {
                called.push(at);
            }
        }
        again.sort_unstable();
        for at in again {
            let invocation = &invocations[at];
            let objects = Objects { new: object, old };
            if self.applies(invocation, objects)? {
                self.call_one(invocation, object, old, settle).await?;
            }
        }
        Ok(Reviewed::Yes)
    }

    /// Calls one mutating webhook, and reports whether it has changed the object.
    async fn call_one(
        &self,
        invocation: &Invocation,
        object: &mut Value,
        old: &Value,
        settle: &(dyn Fn(&mut Value) -> Result<(), ApiError> + Send + Sync),
    ) -> Result<bool, ApiError> {
        let webhook = &*invocation.webhook;
        let objects = Objects { new: object, old };
        let verdict = match self.ask(Phase::Mutating, invocation, objects).await {
            Ok(verdict) => verdict,
            Err(problem) => return self.judge(webhook, problem).map(|()| false),
        };
        let Some(patch) = verdict.patch else {
            return Ok(false);
        };
        if object.is_null() {
            return Err(ApiError::internal(format!(
                "admission webhook \"{}\" attempted to modify the object, which is not supported for this operation",
                webhook.name
            )));
        }
        let mut patched = self.sent(object, &invocation.resource);
        let before = patched.clone();
        Operations::parse(&patch)
            .and_then(|operations| operations.apply(&mut patched))
            .map_err(|error| {
                let why = format!(
                    "the patch of admission webhook \"{}\": {error}",
                    webhook.name
                );
                ApiError::internal(why)
            })?;
        if patched == before {
            return Ok(false);
        }
        let managed = object["metadata"].get("managedFields").cloned();
        *object = self.taken(patched, object, &invocation.resource)?;
        settle(object)?;
        keep_managed(object, managed);
        Ok(true)
    }

    /// Calls the validating webhooks, all at once.
    async fn validate(&self, new: &Value, old: &Value) -> Result<Reviewed, ApiError> {
        let mut invocations = self.invocations(Phase::Validating);
        let objects = Objects { new, old };
        let mut problem = None;
        invocations.retain(|invocation| match self.applies(invocation, objects) {
            Ok(applies) => applies,
            Err(error) => {
                problem.get_or_insert(error);
                false
            }
        });
        if let Some(error) = problem {
            return Err(error);
        }
        if invocations.is_empty() {
            return Ok(Reviewed::No);
        }
        let _turn = self.turn()?;
        let answers = invocations.iter().map(async |invocation| {
            match self.ask(Phase::Validating, invocation, objects).await {
                Ok(_) => Ok(()),
                Err(problem) => self.judge(&invocation.webhook, problem),
            }
        });
        for answer in futures::future::join_all(answers).await {
            answer?;
        }
        Ok(Reviewed::Yes)
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

/// What a webhook changes belongs to nobody; it may change who owns what only to something that can be read.
fn keep_managed(object: &mut Value, before: Option<Value>) {
    let readable = |entry: &Value| {
        matches!(entry["operation"].as_str(), Some("Apply" | "Update"))
            && entry["manager"].is_string()
            && entry["fieldsV1"].is_object()
    };
    let entries = object["metadata"]["managedFields"].as_array();
    if entries.is_some_and(|entries| entries.iter().all(readable)) {
        return;
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        match before {
            Some(before) => drop(metadata.insert("managedFields".to_owned(), before)),
            None => drop(metadata.remove("managedFields")),
        }
    }
}

/// Lets the mutating webhooks change an object that is created or updated.
pub(super) async fn mutate(
    call: &Call,
    subject: &Subject<'_>,
    value: &mut Value,
    settle: &(dyn Fn(&mut Value) -> Result<(), ApiError> + Send + Sync),
) -> Result<Reviewed, ApiError> {
    let Some(request) = Request::write(call, subject) else {
        return Ok(Reviewed::No);
    };
    if let Some(old) = subject.old {
        return request.mutate(value, old, settle).await;
    }
    let given = Given::of(value, subject);
    given.hide(value);
    let settle = |value: &mut Value| {
        given.restore(value);
        settle(value)?;
        given.hide(value);
        Ok(())
    };
    let reviewed = request.mutate(value, &Value::Null, &settle).await;
    given.restore(value);
    reviewed
}

/// What the server gives a new object. It is not there yet when mutating webhooks are called.
struct Given(Vec<(&'static str, Value)>);

impl Given {
    fn of(value: &Value, subject: &Subject<'_>) -> Self {
        let fields = ["uid", "creationTimestamp"].into_iter();
        let name = subject.name.is_empty().then_some("name");
        let given = |field| Some((field, value["metadata"].get(field)?.clone()));
        Self(fields.chain(name).filter_map(given).collect())
    }

    fn hide(&self, value: &mut Value) {
        if let Some(metadata) = value["metadata"].as_object_mut() {
            for (field, given) in &self.0 {
                // A name that a webhook has chosen stays.
                if metadata.get(*field) == Some(given) {
                    metadata.remove(*field);
                }
            }
        }
    }

    fn restore(&self, value: &mut Value) {
        for (field, given) in &self.0 {
            let chosen = *field == "name" && value["metadata"]["name"].is_string();
            if !chosen {
                value["metadata"][*field] = given.clone();
            }
        }
    }
}

/// Lets the validating webhooks refuse an object that is created or updated.
pub(super) async fn validate(
    call: &Call,
    subject: &Subject<'_>,
    value: &Value,
) -> Result<Reviewed, ApiError> {
    match Request::write(call, subject) {
        Some(request) => {
            request
                .validate(value, subject.old.unwrap_or(&Value::Null))
                .await
        }
        None => Ok(Reviewed::No),
    }
}

/// Lets all webhooks refuse a delete.
pub(super) async fn review_delete(
    call: &Call,
    key: &Key,
    object: &Value,
    options: &delete::Options,
) -> Result<Reviewed, ApiError> {
    let Some(request) = Request::delete(call, key, options) else {
        return Ok(Reviewed::No);
    };
    let mutated = request
        .mutate(&mut Value::Null, object, &|_| Ok(()))
        .await?;
    let validated = request.validate(&Value::Null, object).await?;
    Ok(if mutated == Reviewed::Yes {
        mutated
    } else {
        validated
    })
}

/// Lets webhooks change or refuse what is sent to a subresource that is not stored. Reports whether any was called.
pub(crate) async fn review_part(
    call: &Call,
    part: &Part<'_>,
    object: &mut Value,
) -> Result<bool, ApiError> {
    let Some(request) = Request::part(call, part, Operation::Create) else {
        return Ok(false);
    };
    let mutated = request.mutate(object, &Value::Null, &|_| Ok(())).await?;
    request.validate(object, &Value::Null).await?;
    Ok(mutated == Reviewed::Yes)
}

/// Lets webhooks refuse a connection with these options.
pub(crate) async fn review_connection(
    call: &Call,
    part: &Part<'_>,
    mut options: Value,
) -> Result<(), ApiError> {
    let Some(request) = Request::part(call, part, Operation::Connect) else {
        return Ok(());
    };
    request
        .mutate(&mut options, &Value::Null, &|_| Ok(()))
        .await?;
    request.validate(&options, &Value::Null).await?;
    Ok(())
}
