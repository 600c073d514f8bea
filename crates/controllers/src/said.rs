//! What a server said, in its own words: for conditions and events, which people read.

use std::error::Error;

/// The longest page that is passed on as it is: of an answer that no API server gave, such as the page of a proxy.
const LONGEST_PAGE: usize = 200;

/// Why a request failed: what the server answered, or else what kept it from answering, without what the client adds.
pub(crate) fn said(error: &kube::Error) -> String {
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

/// Reports whether the server answered, so that the failure is news: that it does not answer at all is logged once, by
/// its client.
pub(crate) fn is_answer(error: &kube::Error) -> bool {
    !matches!(
        error,
        kube::Error::Service(_) | kube::Error::HyperError(_) | kube::Error::ReadEvents(_)
    )
}

/// Reports whether the server answered with this HTTP status code.
pub(crate) fn has_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

/// Returns the message of the innermost error.
pub(crate) fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use kube::core::response::StatusDetails;

    use super::*;

    #[test]
    fn people_read_the_words_of_the_server() {
        let refused = "Deployment.apps \"web\" is invalid: spec.selector: field is immutable";
        let long = format!("Job.batch \"once\" is invalid: {}", "x".repeat(500));
        let of = |message: &str, reason: &str, details: Option<StatusDetails>| {
            let mut status = Status::failure(message, reason).with_code(422);
            status.details = details;
            said(&kube::Error::Api(status.boxed()))
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
    fn where_nobody_answered_the_cause_is_told() {
        let refused = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "refused");
        let error = kube::Error::Service(Box::new(refused));
        assert_eq!(said(&error), "refused");
    }
}
