//! How a definition says that its objects are converted. Webhooks are accepted, as installers ship them, and never
//! called: objects keep the version they were written in.

use serde_json::{Value, json};

use super::definition::{list, text};
use crate::builtin::names;
use crate::error::Cause;

const CONFIG: &str = "spec.conversion.webhookClientConfig";
const REVIEWS: &str = "spec.conversion.conversionReviewVersions";
/// The port of a service where nobody names one.
const PORT: u16 = 443;
/// The versions of conversion reviews, of which a webhook must know one.
const KNOWN: [&str; 2] = ["v1", "v1beta1"];

/// Fills in what nobody said of a conversion.
pub(super) fn default(spec: &mut Value) {
    if spec.is_object() && spec["conversion"].is_null() {
        spec["conversion"] = json!({"strategy": "None"});
    }
    let service = spec.pointer_mut("/conversion/webhook/clientConfig/service");
    if let Some(Value::Object(service)) = service {
        service.entry("port").or_insert(json!(PORT));
    }
}

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
        client(config, causes);
        if list(reviews).is_empty() {
            causes.push(Cause::required(REVIEWS, ""));
        } else if !list(reviews)
            .iter()
            .any(|version| KNOWN.iter().any(|known| version == known))
        {
            let why = "must include at least one of v1, v1beta1";
            causes.push(Cause::invalid_as(REVIEWS, &reviews.to_string(), why));
        }
        return;
    }
    let why = "should not be set when strategy is not set to Webhook";
    if !config.is_null() {
        causes.push(Cause::forbidden(CONFIG, why));
    }
    if !list(reviews).is_empty() {
        causes.push(Cause::forbidden(REVIEWS, why));
    }
}

/// Where the webhook is.
fn client(config: &Value, causes: &mut Vec<Cause>) {
    if config.is_null() {
        let why = "required when strategy is set to Webhook";
        causes.push(Cause::required(CONFIG, why));
        return;
    }
    match (config["url"].as_str(), &config["service"]) {
        (Some(at), Value::Null) => url(at, causes),
        (None, service) if !service.is_null() => self::service(service, causes),
        _ => causes.push(Cause::required(
            CONFIG,
            "exactly one of url or service is required",
        )),
    }
}

fn url(url: &str, causes: &mut Vec<Cause>) {
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest.split_once("://").unwrap_or(("", ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let form = "; desired format: https://host[/path]";
    for (wrong, shown, why) in [
        (
            scheme != "https",
            scheme,
            format!("'https' is the only allowed URL scheme{form}"),
        ),
        (
            host.is_empty(),
            host,
            format!("host must be specified{form}"),
        ),
        (
            !user.is_empty(),
            user,
            "user information is not permitted in the URL".to_owned(),
        ),
        (
            !fragment.is_empty(),
            fragment,
            "fragments are not permitted in the URL".to_owned(),
        ),
        (
            !query.is_empty(),
            query,
            "query parameters are not permitted in the URL".to_owned(),
        ),
    ] {
        if wrong {
            causes.push(Cause::invalid(format!("{CONFIG}.url"), &json!(shown), &why));
        }
    }
}

fn service(service: &Value, causes: &mut Vec<Cause>) {
    let place = |field: &str| format!("{CONFIG}.service.{field}");
    for field in ["name", "namespace"] {
        if text(service, field).is_empty() {
            causes.push(Cause::required(place(field), ""));
        }
    }
    let port = &service["port"];
    if port
        .as_i64()
        .is_some_and(|port| !(1..=65535).contains(&port))
    {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        causes.push(Cause::invalid(place("port"), port, why));
    }
    let path = text(service, "path");
    if path.is_empty() || path == "/" {
        return;
    }
    let mut say = |why: &str| causes.push(Cause::invalid(place("path"), &json!(path), why));
    if path == "//" {
        say("segment[0] may not be empty");
        return;
    }
    if !path.starts_with('/') {
        say("must start with a '/'");
    }
    let mut characters = path.chars();
    characters.next();
    let steps = characters.as_str();
    let steps = steps.strip_suffix('/').unwrap_or(steps);
    for (at, step) in steps.split('/').enumerate() {
        if step.is_empty() {
            say(&format!("segment[{at}] may not be empty"));
        } else if let Some(problem) = names::subdomain(step) {
            say(&format!("segment[{at}]: {problem}"));
        }
    }
}
