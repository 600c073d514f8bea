//! Validation of webhook configurations, and of the clients of webhooks.

use serde_json::Value;

use super::checks::{qualified, selector};
use super::field::Field;
use super::rules::Check::{
    Between, By, ExactlyOneOf, OneOf, Required, RequiredOneOf, RequiredText, Text, Unique,
};
use super::rules::{Rule, apply};
use crate::cel::Condition;
use crate::error::Cause;
use crate::names;

/// Versions of reviews that the server can send.
pub(super) const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
/// Maximum match conditions of a webhook.
const MOST_CONDITIONS: usize = 64;

const WEBHOOK: &[Rule] = &[
    ("name", RequiredText(names::subdomain)),
    ("name", By(three_segments)),
    ("admissionReviewVersions", By(review_versions)),
    (
        "rules[].operations rules[].apiGroups rules[].apiVersions",
        Required,
    ),
    (
        "rules[].operations rules[].apiGroups rules[].apiVersions",
        By(wildcard),
    ),
    (
        "rules[].operations[]",
        ExactlyOneOf(&["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]),
    ),
    (
        "rules[].resources rules[].apiVersions[] rules[].resources[]",
        Required,
    ),
    ("rules[].resources", By(resources)),
    ("rules[].scope", OneOf(&["*", "Cluster", "Namespaced"])),
    ("failurePolicy", OneOf(&["Fail", "Ignore"])),
    ("matchPolicy", OneOf(&["Equivalent", "Exact"])),
    ("reinvocationPolicy", OneOf(&["IfNeeded", "Never"])),
    ("sideEffects", RequiredOneOf(&["None", "NoneOnDryRun"])),
    ("timeoutSeconds", Between(1, 30)),
    ("namespaceSelector objectSelector", By(selector)),
    ("clientConfig", By(client)),
];

/// Checks a `ValidatingWebhookConfiguration` or a `MutatingWebhookConfiguration`.
pub(super) fn configuration(configuration: &Field<'_>) {
    let webhooks = configuration.get("webhooks");
    Unique("name").apply(&webhooks);
    for webhook in webhooks.each() {
        apply(WEBHOOK, &webhook);
        let mut before = webhooks.old.and_then(Value::as_array).into_iter().flatten();
        let before = before.find(|before| before["name"] == webhook.value["name"]);
        conditions(&webhook.get("matchConditions"), before);
    }
}

fn three_segments(name: &Field<'_>) {
    if !name.is_empty() && name.text().split('.').count() < 3 {
        name.invalid("should be a domain with at least three segments separated by dots");
    }
}

fn review_versions(versions: &Field<'_>) {
    let all = versions.texts();
    if all.is_empty() {
        return versions.required("must include v1 or v1beta1");
    }
    for (i, version) in versions.each().enumerate() {
        Text(names::dns_1035).apply(&version);
        if all[..i].contains(&version.text()) {
            version.invalid("duplicate version");
        }
    }
    if !REVIEWS.iter().any(|known| all.contains(known)) {
        versions.invalid("must include v1 or v1beta1");
    }
}

/// Refuses a wildcard beside other items.
fn wildcard(list: &Field<'_>) {
    if list.count() > 1 && list.texts().contains(&"*") {
        list.invalid("if '*' is present, there must not be other items");
    }
}

/// Refuses resources that another item includes.
fn resources(list: &Field<'_>) {
    let all = list.texts();
    let parts = |text: &'_ str| -> (String, String) {
        let (kind, part) = text.split_once('/').unwrap_or((text, ""));
        (kind.to_owned(), part.to_owned())
    };
    for (i, resource) in list.each().enumerate() {
        let (kind, part) = parts(resource.text());
        let includes = |other: &&str| {
            let (other_kind, other_part) = parts(other);
            other_part == "*" && other_kind == kind
                || other_kind == "*" && other_part == part && !part.is_empty()
        };
        if all[..i].iter().any(includes) {
            resource.invalid("is included in another item");
        }
    }
    let plain = |text: &&str| !text.contains('/') && *text != "*";
    if all.contains(&"*/*") && all.iter().any(|text| *text != "*/*")
        || all.contains(&"*") && all.iter().any(plain)
    {
        list.invalid("must not specify other resources beside a wildcard");
    }
}

fn conditions(list: &Field<'_>, stored: Option<&Value>) {
    if list.count() > MOST_CONDITIONS {
        let most = MOST_CONDITIONS as u64;
        return list.report(Cause::too_many(list.path.as_str(), list.count(), most));
    }
    let mut seen = Vec::new();
    for condition in list.each() {
        let (name, expression) = (condition.get("name"), condition.get("expression"));
        if name.is_empty() {
            name.required("");
        } else {
            qualified(&name);
            if seen.contains(&name.text()) {
                name.duplicate();
            }
            seen.push(name.text());
        }
        if expression.text().trim().is_empty() {
            expression.required("");
            continue;
        }
        // An update may keep an invalid expression.
        let mut stored = stored
            .and_then(|s| s["matchConditions"].as_array())
            .into_iter()
            .flatten();
        if let Err(problem) = Condition::parse(expression.text())
            && !stored.any(|known| known["expression"] == *expression.value)
        {
            expression.invalid(&problem);
        }
    }
}

/// Checks a `clientConfig`, which conversion and admission webhooks share.
pub(super) fn client(config: &Field<'_>) {
    const SERVICE: &[Rule] = &[
        ("name namespace", Required),
        ("port", Between(1, 65535)),
        ("path", By(service_path)),
    ];
    let (url, service) = (config.get("url"), config.get("service"));
    match (url.value.is_string(), service.is_set()) {
        (true, false) => self::url(&url),
        (false, true) => apply(SERVICE, &service),
        _ => config.required("exactly one of url or service is required"),
    }
}

fn url(url: &Field<'_>) {
    let rest = url.text().strip_prefix("https://").unwrap_or_default();
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.is_empty() || host.contains('@') || rest.contains(['?', '#']) {
        url.invalid("must be https://HOST[/PATH] without a user, query or fragment");
    }
}

fn service_path(path: &Field<'_>) {
    if path.is_empty() || path.text() == "/" {
        return;
    }
    let steps = path.text().strip_prefix('/').unwrap_or_default();
    let steps = steps.strip_suffix('/').unwrap_or(steps);
    if steps
        .split('/')
        .any(|step| names::subdomain(step).is_some())
    {
        path.invalid("must start with '/' and consist of valid segments");
    }
}
