//! Validation of the conversion of a CustomResourceDefinition. Webhooks are accepted, as installers ship them, but never
//! called: objects keep the version they were written in.

use serde_json::{Value, json};

use super::definition::{list, text};
use crate::builtins::webhook_client;
use crate::error::Cause;

const CONFIG: &str = "spec.conversion.webhookClientConfig";
const REVIEWS: &str = "spec.conversion.conversionReviewVersions";
/// The versions of ConversionReview.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Adds the problems of `spec.conversion`.
pub(super) fn validate(conversion: &Value, causes: &mut Vec<Cause>) {
    let webhook = &conversion["webhook"];
    let (config, reviews) = (
        &webhook["clientConfig"],
        &webhook["conversionReviewVersions"],
    );
    let strategy = text(conversion, "strategy");
    match strategy {
        "" if conversion.is_null() => {}
        "" => causes.push(Cause::required("spec.conversion.strategy", "")),
        "None" | "Webhook" => {}
        other => {
            let allowed = ["None", "Webhook"].map(str::to_owned);
            let field = "spec.conversion.strategy";
            causes.push(Cause::not_supported(field, &json!(other), &allowed));
        }
    }
    if strategy == "Webhook" {
        if config.is_null() {
            let detail = "required when strategy is set to Webhook";
            causes.push(Cause::required(CONFIG, detail));
        } else {
            webhook_client::validate(config, CONFIG, causes);
        }
        if list(reviews).is_empty() {
            causes.push(Cause::required(REVIEWS, ""));
        } else if !list(reviews)
            .iter()
            .any(|version| REVIEW_VERSIONS.iter().any(|known| version == known))
        {
            let detail = "must include at least one of v1, v1beta1";
            causes.push(Cause::invalid(REVIEWS, reviews, detail));
        }
        return;
    }
    let detail = "should not be set when strategy is not set to Webhook";
    if !config.is_null() {
        causes.push(Cause::forbidden(CONFIG, detail));
    }
    if !list(reviews).is_empty() {
        causes.push(Cause::forbidden(REVIEWS, detail));
    }
}
