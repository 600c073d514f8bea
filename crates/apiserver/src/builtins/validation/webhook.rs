//! Validation of webhook configurations.

use std::collections::HashSet;

use serde_json::Value;

use super::field::Field;
use super::selector;
use crate::builtins::webhook_client;
use crate::cel::Condition;
use crate::error::Cause;
use crate::names;

/// Versions of AdmissionReview that the server can send.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
/// Maximum match conditions of a webhook.
const MOST_CONDITIONS: usize = 64;

/// Checks a `ValidatingWebhookConfiguration` or a `MutatingWebhookConfiguration`.
pub(super) fn configuration(value: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let mut seen = HashSet::new();
    for webhook in Field::new(&value["webhooks"], "webhooks").each() {
        let name = webhook.field("name");
        if !seen.insert(name.text()) {
            name.duplicate(causes);
        }
        let stored = old.and_then(|old| {
            let mut all = old["webhooks"].as_array()?.iter();
            all.find(|stored| stored["name"] == *name.value)
        });
        self::webhook(&webhook, stored, causes);
    }
}

fn webhook(webhook: &Field<'_>, stored: Option<&Value>, causes: &mut Vec<Cause>) {
    let name = webhook.field("name");
    name.named(names::subdomain, causes);
    if !name.text().is_empty() && name.text().split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        name.invalid(detail, causes);
    }
    review_versions(&webhook.field("admissionReviewVersions"), causes);
    for rule in webhook.items("rules") {
        self::rule(&rule, causes);
    }
    for (field, allowed) in [
        ("failurePolicy", &["Fail", "Ignore"][..]),
        ("matchPolicy", &["Equivalent", "Exact"]),
        ("reinvocationPolicy", &["IfNeeded", "Never"]),
    ] {
        webhook.field(field).one_of(allowed, causes);
    }
    let effects = webhook.field("sideEffects");
    if effects.is_set() {
        effects.exactly_one_of(&["None", "NoneOnDryRun"], causes);
    } else {
        effects.required("must specify one of None, NoneOnDryRun", causes);
    }
    let timeout = webhook.field("timeoutSeconds");
    if timeout.number().is_some_and(|t| !(1..=30).contains(&t)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        timeout.invalid(detail, causes);
    }
    for field in ["namespaceSelector", "objectSelector"] {
        selector::labels(&webhook.field(field), causes);
    }
    let client = webhook.field("clientConfig");
    webhook_client::validate(client.value, &client.path, causes);
    conditions(&webhook.field("matchConditions"), stored, causes);
}

fn review_versions(versions: &Field<'_>, causes: &mut Vec<Cause>) {
    if versions.count() == 0 {
        let detail = "must specify one of v1, v1beta1";
        versions.required(detail, causes);
        return;
    }
    let (mut seen, mut known) = (HashSet::new(), false);
    for version in Field::new(versions.value, versions.path.as_str()).each() {
        if !seen.insert(version.text()) {
            version.invalid("duplicate version", causes);
        }
        version.problems(names::dns_1035(version.text()), causes);
        known |= REVIEWS.contains(&version.text());
    }
    if !known {
        let detail = "must include at least one of v1, v1beta1";
        versions.invalid(detail, causes);
    }
}

fn rule(rule: &Field<'_>, causes: &mut Vec<Cause>) {
    let operations = rule.field("operations");
    for operation in rule.items("operations") {
        operation.exactly_one_of(&OPERATIONS, causes);
    }
    if operations.count() == 0 {
        operations.required("", causes);
    }
    check_wildcard(&operations, "operations", causes);
    for field in ["apiGroups", "apiVersions"] {
        let list = rule.field(field);
        if list.count() == 0 {
            list.required("", causes);
        }
        check_wildcard(&list, field, causes);
    }
    for version in rule.items("apiVersions") {
        if version.text().is_empty() {
            version.required("", causes);
        }
    }
    resources(rule, causes);
    rule.field("scope")
        .one_of(&["*", "Cluster", "Namespaced"], causes);
}

/// Refuses a wildcard beside other items.
fn check_wildcard(list: &Field<'_>, what: &str, causes: &mut Vec<Cause>) {
    let items = list.value.as_array().map_or(&[][..], Vec::as_slice);
    if items.len() > 1 && items.iter().any(|item| item == "*") {
        let detail = format!("if '*' is present, must not specify other {what}");
        list.invalid(&detail, causes);
    }
}

/// Refuses resources that another item includes.
fn resources(rule: &Field<'_>, causes: &mut Vec<Cause>) {
    let list = rule.field("resources");
    if list.count() == 0 {
        list.required("", causes);
    }
    let (mut seen, mut all, mut wildcard) = (HashSet::new(), false, false);
    let (mut all_subresources, mut all_kinds) = (HashSet::new(), HashSet::new());
    for resource in rule.items("resources") {
        let text = resource.text();
        if text.is_empty() {
            resource.required("", causes);
        }
        all |= text == "*/*";
        wildcard |= text == "*";
        let (kind, part) = text.split_once('/').unwrap_or((text, ""));
        if all_subresources.contains(kind) {
            let detail = format!("if '{kind}/*' is present, must not specify {text}");
            resource.invalid(&detail, causes);
        }
        if all_kinds.contains(part) && !part.is_empty() {
            let detail = format!("if '*/{part}' is present, must not specify {text}");
            resource.invalid(&detail, causes);
        }
        if part == "*" {
            all_subresources.insert(kind);
        }
        if kind == "*" {
            all_kinds.insert(part);
        }
        seen.insert(text);
    }
    if all && seen.len() > 1 {
        let detail = "if '*/*' is present, must not specify other resources";
        list.invalid(detail, causes);
    }
    let plain = |text: &&str| !text.contains('/') && *text != "*";
    if wildcard && seen.iter().any(plain) {
        let detail = "if '*' is present, must not specify other resources without subresources";
        list.invalid(detail, causes);
    }
}

fn conditions(list: &Field<'_>, stored: Option<&Value>, causes: &mut Vec<Cause>) {
    if list.count() > MOST_CONDITIONS {
        let most = u64::try_from(MOST_CONDITIONS).unwrap_or_default();
        causes.push(Cause::too_many(list.path.as_str(), list.count(), most));
        return;
    }
    let mut seen = HashSet::new();
    for condition in Field::new(list.value, list.path.as_str()).each() {
        let (name, expression) = (condition.field("name"), condition.field("expression"));
        if name.text().is_empty() {
            name.required("", causes);
        } else {
            name.qualified(causes);
            if !seen.insert(name.text()) {
                name.duplicate(causes);
            }
        }
        if expression.text().trim().is_empty() {
            expression.required("", causes);
            continue;
        }
        // An update may keep an invalid expression.
        let kept = stored.is_some_and(|stored| {
            let mut all = stored["matchConditions"].as_array().into_iter().flatten();
            all.any(|known| known["expression"] == *expression.value)
        });
        if let Err(problem) = Condition::parse(expression.text())
            && !kept
        {
            expression.invalid(&problem, causes);
        }
    }
}
