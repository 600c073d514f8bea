//! Validation of `clientConfig`, which conversion and admission webhooks share.

use serde_json::{Value, json};

use super::names;
use crate::error::Cause;

/// Checks a `clientConfig` at `path`.
pub(crate) fn validate(config: &Value, path: &str, causes: &mut Vec<Cause>) {
    match (config["url"].as_str(), &config["service"]) {
        (Some(at), Value::Null) => url(at, path, causes),
        (None, service) if !service.is_null() => self::service(service, path, causes),
        _ => causes.push(Cause::required(
            path,
            "exactly one of url or service is required",
        )),
    }
}

fn url(url: &str, path: &str, causes: &mut Vec<Cause>) {
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest.split_once("://").unwrap_or(("", ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let form = "; desired format: https://host[/path]";
    for (wrong, shown, detail) in [
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
            causes.push(Cause::invalid(
                format!("{path}.url"),
                &json!(shown),
                &detail,
            ));
        }
    }
}

fn service(service: &Value, config: &str, causes: &mut Vec<Cause>) {
    let path_of = |field: &str| format!("{config}.service.{field}");
    for field in ["name", "namespace"] {
        if service[field].as_str().unwrap_or_default().is_empty() {
            causes.push(Cause::required(path_of(field), ""));
        }
    }
    let port = &service["port"];
    if port
        .as_i64()
        .is_some_and(|port| !(1..=65535).contains(&port))
    {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        causes.push(Cause::invalid(path_of("port"), port, detail));
    }
    let path = service["path"].as_str().unwrap_or_default();
    if path.is_empty() || path == "/" {
        return;
    }
    let mut say = |detail: &str| causes.push(Cause::invalid(path_of("path"), &json!(path), detail));
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
