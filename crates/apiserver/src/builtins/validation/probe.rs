//! Validation of probes and lifecycle hooks.

use super::checks::{port, port_number, set_among};
use super::field::Field;
use super::rules::Check::{Between, By, ExactlyOneOf, Forbidden, IfSet, NotNegative, Required};
use super::rules::{Rule, apply};

/// The rules of all probes.
const PROBE: &[Rule] = &[(
    "initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold",
    NotNegative,
)];

/// The rules of probes that restart a container.
const RESTARTING: &[Rule] = &[
    ("terminationGracePeriodSeconds", Between(1, i64::MAX)),
    ("successThreshold", Between(1, 1)),
];

const READINESS: &[Rule] = &[(
    "terminationGracePeriodSeconds",
    By(|grace| {
        if grace.is_set() {
            grace.invalid("must not be set for readinessProbes");
        }
    }),
)];

/// The rules of each kind of handler.
const HANDLER: &[Rule] = &[
    ("exec", IfSet(&[("command", Required)])),
    (
        "httpGet",
        IfSet(&[
            ("path", Required),
            ("port", By(port)),
            ("scheme", ExactlyOneOf(&["HTTP", "HTTPS"])),
            ("httpHeaders", By(headers)),
        ]),
    ),
    ("tcpSocket", IfSet(&[("port", By(port))])),
    ("grpc", IfSet(&[("port", By(port_number))])),
];

/// Checks the probes and hooks of a container. `grace` is the termination grace period of the pod.
pub(super) fn of_container(container: &Field<'_>, grace: i64) {
    for hook in ["lifecycle.postStart", "lifecycle.preStop"] {
        let hook = container.get(hook);
        if hook.is_set() {
            handler(&hook, grace);
        }
    }
    for (name, rules) in [
        ("livenessProbe", RESTARTING),
        ("readinessProbe", READINESS),
        ("startupProbe", RESTARTING),
    ] {
        let probe = container.get(name);
        if probe.is_set() {
            handler(&probe, 0);
            apply(PROBE, &probe);
            apply(rules, &probe);
        }
    }
}

fn handler(handler: &Field<'_>, grace: i64) {
    let found = set_among(handler, &["exec", "httpGet", "tcpSocket", "grpc", "sleep"]);
    for (_, another) in found.iter().skip(1) {
        Forbidden("may not specify more than 1 handler type").apply(another);
    }
    let Some((kind, action)) = found.first() else {
        return handler.required("must specify a handler type");
    };
    let seconds = action.get("seconds").number().unwrap_or(0);
    if *kind == "sleep" && !(0..=grace).contains(&seconds) {
        action.invalid("must be non-negative and at most the termination grace period");
    }
    for (name, rules) in HANDLER.iter().filter(|(name, _)| name == kind) {
        rules.apply(&handler.get(name));
    }
}

fn headers(headers: &Field<'_>) {
    let usual = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let valid = |name: &str| !name.is_empty() && name.chars().all(usual);
    if headers.each().any(|header| !valid(header.text_of("name"))) {
        headers.invalid("names must consist of alphanumeric characters or '-'");
    }
}
