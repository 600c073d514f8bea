//! Validation of containers, with their probes, lifecycle hooks and environment variables.

use super::checks::{port, port_number, set_among};
use super::field::Field;
use super::rules::Check::{
    Between, By, ExactlyOneOf, Forbidden, IfSet, NotNegative, OneOf, OptionalText, Required,
    RequiredOneOf, RequiredText, Text,
};
use super::rules::{Check, Rule, apply};
use super::{resources, volume};
use crate::text_rules;

/// The range of user and group ids.
pub(super) const ID: Check = Between(0, i32::MAX as i64);
/// The rules of seccomp and AppArmor profiles.
pub(super) const PROFILE: &[Rule] = &[(
    "type",
    RequiredOneOf(&["Localhost", "RuntimeDefault", "Unconfined"]),
)];

/// The rules for containers of all kinds.
const CONTAINER: &[Rule] = &[
    ("image", By(image)),
    (
        "imagePullPolicy",
        OneOf(&["Always", "IfNotPresent", "Never"]),
    ),
    (
        "terminationMessagePolicy",
        OneOf(&["File", "FallbackToLogsOnError"]),
    ),
    ("env[].name", RequiredText(text_rules::variable)),
    ("env[].valueFrom", IfSet(&[("", By(value_from))])),
    ("env[]", By(value_or_source)),
    (
        "env[].valueFrom.configMapKeyRef env[].valueFrom.secretKeyRef",
        IfSet(&[
            ("name", Text(text_rules::subdomain)),
            ("key", RequiredText(text_rules::config_key)),
        ]),
    ),
    ("envFrom[].prefix", OptionalText(text_rules::variable)),
    ("envFrom", By(env_from)),
    ("securityContext.runAsUser securityContext.runAsGroup", ID),
    (
        "securityContext.seccompProfile securityContext.appArmorProfile",
        IfSet(PROFILE),
    ),
    ("resources", By(resources::of_container)),
    ("restartPolicy", OneOf(&["Always", "Never", "OnFailure"])),
];

/// The rules for init containers that run to completion.
const ENDING: &[Rule] = &[(
    "lifecycle livenessProbe readinessProbe startupProbe",
    Forbidden("may only be set for init containers with restartPolicy=Always"),
)];

/// The rules for containers that run as long as their pod.
const RUNNING: &[Rule] = &[
    (
        "lifecycle.postStart lifecycle.preStop livenessProbe readinessProbe startupProbe",
        IfSet(&[("", By(handler))]),
    ),
    (
        "livenessProbe readinessProbe startupProbe",
        IfSet(&[(
            "initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold",
            NotNegative,
        )]),
    ),
    // The next rules apply to the two probes that restart a container.
    (
        "livenessProbe.terminationGracePeriodSeconds startupProbe.terminationGracePeriodSeconds",
        Between(1, i64::MAX),
    ),
    (
        "livenessProbe.successThreshold startupProbe.successThreshold",
        Between(1, 1),
    ),
];

/// The kinds of handlers of probes and lifecycle hooks. [`HANDLER`] contains their rules.
const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
const HANDLER: &[Rule] = &[
    ("exec", IfSet(&[("command", Required)])),
    (
        "httpGet",
        IfSet(&[
            ("path", Required),
            ("port", By(port)),
            ("scheme", ExactlyOneOf(&["HTTP", "HTTPS"])),
        ]),
    ),
    ("tcpSocket", IfSet(&[("port", By(port))])),
    ("grpc", IfSet(&[("port", By(port_number))])),
];

/// Checks a container that runs as long as its pod.
pub(super) fn main(container: &Field<'_>, spec: &Field<'_>) {
    common(container, spec);
    apply(RUNNING, container);
}

/// Checks an init container. An init container with the restart policy `Always` runs as long as its pod.
pub(super) fn init(container: &Field<'_>, spec: &Field<'_>) {
    if container.text_of("restartPolicy") == "Always" {
        return main(container, spec);
    }
    common(container, spec);
    apply(ENDING, container);
}

/// Checks the fields that containers of all kinds have, except for the name.
pub(super) fn common(container: &Field<'_>, spec: &Field<'_>) {
    apply(CONTAINER, container);
    ports(container, spec.value["hostNetwork"] == true);
    volume::mounts(container, spec);
    volume::devices(container, spec);
    volume::files(container, spec);
    device_claims(&container.get("resources"), spec);
}

/// Checks that the resources of a container or of a pod name claims of the pod.
pub(super) fn device_claims(resources: &Field<'_>, spec: &Field<'_>) {
    for claim in resources.items("claims") {
        let name = claim.get("name");
        let mut known = spec.items("resourceClaims");
        if !known.any(|known| known.text_of("name") == name.text()) {
            name.reported_at(claim.path).not_found();
        }
    }
}

fn image(image: &Field<'_>) {
    if image.is_empty() {
        image.required("");
    } else if image.text().trim() != image.text() {
        image.invalid("must not have leading or trailing whitespace");
    }
}

fn handler(handler: &Field<'_>) {
    let found = set_among(handler, &HANDLERS);
    if found.is_empty() {
        return handler.required("must specify a handler type");
    }
    for another in found.iter().skip(1) {
        another.forbidden("may not specify more than 1 handler type");
    }
    apply(HANDLER, handler);
}

fn ports(container: &Field<'_>, host_network: bool) {
    let mut names = Vec::new();
    for port in container.items("ports") {
        let (name, number) = (port.get("name"), port.get("containerPort"));
        let host = port.get("hostPort");
        if names.contains(&name.text()) {
            name.duplicate();
        } else if !name.is_empty() {
            name.problem(text_rules::port_name(name.text()));
            names.push(name.text());
        }
        if number.number().unwrap_or(0) == 0 {
            number.required("");
        } else {
            port_number(&number);
        }
        OneOf(&["SCTP", "TCP", "UDP"]).apply(&port.get("protocol"));
        if host.number().is_some_and(|outside| outside != 0) {
            port_number(&host);
            if host_network && host.number() != number.number() {
                host.invalid("must match `containerPort` when `hostNetwork` is true");
            }
        }
    }
}

const SOURCES: [&str; 5] = [
    "fieldRef",
    "resourceFieldRef",
    "configMapKeyRef",
    "secretKeyRef",
    "fileKeyRef",
];
const ONE: &str = "must have exactly one source";

fn value_from(from: &Field<'_>) {
    if set_among(from, &SOURCES).len() != 1 {
        from.invalid(ONE);
    }
}

fn value_or_source(variable: &Field<'_>) {
    let from = variable.get("valueFrom");
    if from.is_set() && !variable.get("value").is_empty() {
        from.invalid("may not be specified when `value` is not empty");
    }
}

fn env_from(all: &Field<'_>) {
    for source in all.each() {
        let found = set_among(&source, &["configMapRef", "secretRef"]);
        if found.len() != 1 {
            all.invalid(ONE);
        }
        for reference in found {
            RequiredText(text_rules::subdomain).apply(&reference.get("name"));
        }
    }
}
