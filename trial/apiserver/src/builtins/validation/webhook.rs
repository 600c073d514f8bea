//! Validation of admission webhook configurations.

use serde_json::Value;

use super::checks::{qualified, selector};
use super::field::Field;
use super::rules::Check::{
    Between, By, ExactlyOneOf, IfSet, OneOf, Required, RequiredOneOf, RequiredText, Unique,
};
use super::rules::{Rule, apply};
use crate::cel::Condition;
use crate::error::Cause;
use crate::text_rules;

/// Versions of `AdmissionReview` that the server can send.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

const WEBHOOK: &[Rule] = &[
    ("name", RequiredText(text_rules::subdomain)),
    ("name", By(three_segments)),
    ("admissionReviewVersions", By(review_versions)),
    (
        "rules[].operations rules[].apiGroups rules[].apiVersions",
        Required,
    ),
    (
        "rules[].operations[]",
        ExactlyOneOf(&["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]),
    ),
    (
        "rules[].resources rules[].apiVersions[] rules[].resources[]",
        Required,
    ),
    ("rules[].scope", OneOf(&["*", "Cluster", "Namespaced"])),
    ("failurePolicy", OneOf(&["Fail", "Ignore"])),
    ("matchPolicy", OneOf(&["Equivalent", "Exact"])),
    ("reinvocationPolicy", OneOf(&["IfNeeded", "Never"])),
    ("sideEffects", RequiredOneOf(&["None", "NoneOnDryRun"])),
    ("timeoutSeconds", Between(1, 30)),
    ("namespaceSelector objectSelector", By(selector)),
    ("clientConfig", By(client)),
    ("matchConditions[].name", Required),
    ("matchConditions[].name", IfSet(&[("", By(qualified))])),
    ("matchConditions", Unique("name")),
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

/// Checks that a list contains a version of `AdmissionReview` that the server can send.
fn review_versions(versions: &Field<'_>) {
    let known = |version: &&str| REVIEWS.contains(version);
    if versions.count() == 0 {
        versions.required("must include v1 or v1beta1");
    } else if !versions.texts().iter().any(known) {
        versions.invalid("must include v1 or v1beta1");
    }
}

/// Checks that the match conditions compile. An update may keep an invalid expression that is already stored.
fn conditions(list: &Field<'_>, stored: Option<&Value>) {
    /// Maximum number of match conditions of one webhook.
    const MOST: usize = 64;
    if list.count() > MOST {
        return list.report(Cause::too_many(
            list.path.as_str(),
            list.count(),
            MOST as u64,
        ));
    }
    let stored = stored.and_then(|stored| stored["matchConditions"].as_array());
    for expression in list.each().map(|condition| condition.get("expression")) {
        let mut stored = stored.into_iter().flatten();
        if expression.text().trim().is_empty() {
            expression.required("");
        } else if let Err(problem) = Condition::parse(expression.text())
            && !stored.any(|known| known["expression"] == *expression.value)
        {
            expression.invalid(&problem);
        }
    }
}

/// Checks the `clientConfig` of a webhook.
fn client(config: &Field<'_>) {
    const SERVICE: &[Rule] = &[("name namespace", Required), ("port", Between(1, 65535))];
    let (url, service) = (config.get("url"), config.get("service"));
    match (url.value.is_string(), service.is_set()) {
        (true, false) => self::url(&url),
        (false, true) => apply(SERVICE, &service),
        _ => config.required("exactly one of url or service is required"),
    }
}

fn url(url: &Field<'_>) {
    let rest = url.text().strip_prefix("https://").unwrap_or_default();
    let host = rest.split('/').next().unwrap_or_default();
    if host.is_empty() || host.contains('@') || rest.contains(['?', '#']) {
        url.invalid("must be https://HOST[/PATH] without a user, query or fragment");
    }
}
