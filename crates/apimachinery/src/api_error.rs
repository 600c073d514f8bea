//! Messages for the errors of a kube client. Conditions, events and terminals show these messages.

use std::error::Error;

/// Maximum length of the quoted text of a response that is not a `Status`, in characters. Such a response is, for
/// example, the error page of a proxy.
const LONGEST_PAGE: usize = 200;

/// Returns the message of the server's response, or the root cause if there was no response.
pub fn api_error_message(error: &kube::Error) -> String {
    let kube::Error::Api(status) = error else {
        return root_cause(error);
    };
    let message = status.message.trim();
    if message.is_empty() {
        return format!("the server answered {} {}", status.code, status.reason)
            .trim_end()
            .to_owned();
    }
    if status.details.is_none() && message.chars().count() > LONGEST_PAGE {
        let start: String = message.chars().take(LONGEST_PAGE).collect();
        return format!("the server answered {}: {start}…", status.code);
    }
    message.to_owned()
}

/// Returns the message of the innermost source of an error. The outer messages repeat this message or describe the
/// client.
pub fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Reports whether a request got no response. Searches the error and its sources for a [`kube::Error`].
pub fn is_unreachable(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        match error.downcast_ref::<kube::Error>() {
            Some(
                kube::Error::Service(_) | kube::Error::HyperError(_) | kube::Error::ReadEvents(_),
            ) => return true,
            Some(_) => return false,
            None => next = error.source(),
        }
    }
    false
}

/// Reports whether the server answered with this status code.
pub fn has_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

/// Reports whether a write was rejected because the object changed or was deleted after it was read.
pub fn is_stale(error: &kube::Error) -> bool {
    has_code(error, 409) || has_code(error, 404)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use kube::core::response::StatusDetails;

    use super::*;

    #[test]
    fn the_message_of_a_response_is_the_message_of_the_server() {
        let refused = "Deployment.apps \"web\" is invalid: spec.selector: field is immutable";
        let long = format!("Job.batch \"once\" is invalid: {}", "x".repeat(500));
        let of = |message: &str, reason: &str, details: Option<StatusDetails>| {
            let mut status = Status::failure(message, reason).with_code(422);
            status.details = details;
            api_error_message(&kube::Error::Api(status.boxed()))
        };
        let details = || Some(serde_json::from_str("{}").unwrap());
        assert_eq!(of(refused, "Invalid", details()), refused);
        assert_eq!(of(&long, "Invalid", details()), long);
        assert_eq!(of("", "Conflict", None), "the server answered 422 Conflict");
        assert_eq!(of("404 page not found\n", "", None), "404 page not found");
        let page = of(&"<html>".repeat(200), "", None);
        assert!(
            page.starts_with("the server answered 422: <html>"),
            "{page}"
        );
        assert!(page.len() < 300, "{page}");
    }

    #[test]
    fn without_a_response_the_message_is_the_root_cause() {
        let refused = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "refused");
        let error = kube::Error::Service(Box::new(refused));
        assert_eq!(api_error_message(&error), "refused");
    }

    #[test]
    fn only_errors_without_a_response_are_unreachable() {
        let status = Status::failure("no", "Forbidden").with_code(403);
        let forbidden = kube::Error::Api(status.boxed());
        assert!(!is_unreachable(&forbidden));
        assert!(has_code(&forbidden, 403) && !has_code(&forbidden, 404));
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let lost = kube::Error::Service(refused.into());
        assert!(is_unreachable(&lost));
        let watch = kube::runtime::watcher::Error::WatchStartFailed(lost);
        assert!(is_unreachable(&watch));
    }
}
