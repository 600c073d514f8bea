//! Validation of containers.

use super::checks::port_number;
use super::environment;
use super::field::Field;
use super::rules::Check::{By, Forbidden, OneOf};
use super::rules::{Rule, apply};
use super::{pod, probe, resources, security, volume};
use crate::error::Cause;
use crate::names;
use serde_json::json;

/// The rules of all kinds of containers.
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
    ("", By(environment::of_container)),
    ("securityContext", By(security::of_container)),
    ("resources", By(resources::of_container)),
];

const RESTART: &[Rule] = &[("restartPolicy", OneOf(&["Always", "Never", "OnFailure"]))];

/// The rules of init containers that end.
const ENDING: &[Rule] = &[(
    "lifecycle livenessProbe readinessProbe startupProbe",
    Forbidden("may only be set for init containers with restartPolicy=Always"),
)];

/// Checks a container that runs as long as its pod.
pub(super) fn main(container: &Field<'_>, spec: &Field<'_>) {
    common(container, spec);
    apply(RESTART, container);
    probe::of_container(container, pod::grace(spec));
}

/// Checks an init container.
pub(super) fn init(container: &Field<'_>, spec: &Field<'_>) {
    if container.text_of("restartPolicy") == "Always" {
        return main(container, spec);
    }
    common(container, spec);
    apply(RESTART, container);
    apply(ENDING, container);
}

/// Checks the fields that all kinds of containers have, except for the name.
pub(super) fn common(container: &Field<'_>, spec: &Field<'_>) {
    apply(CONTAINER, container);
    ports(container, spec.value["hostNetwork"] == true);
    volume::mounts(container, spec);
}

/// Checks the name of an image.
fn image(image: &Field<'_>) {
    if image.is_empty() {
        image.required("");
    } else if image.text().trim() != image.text() {
        image.invalid("must not have leading or trailing whitespace");
    }
}

fn ports(container: &Field<'_>, host_network: bool) {
    let (mut names, mut on_host) = (Vec::new(), Vec::new());
    for port in container.items("ports") {
        let name = port.get("name");
        if !name.is_empty() {
            let problem = names::port_name(name.text());
            if problem.is_none() && names.contains(&name.text()) {
                name.duplicate();
            }
            name.problem(problem);
            names.push(name.text());
        }
        let (number, host) = (port.get("containerPort"), port.get("hostPort"));
        if number.number().unwrap_or(0) == 0 {
            number.required("");
        } else {
            port_number(&number);
        }
        OneOf(&["SCTP", "TCP", "UDP"]).apply(&port.get("protocol"));
        let Some(outside) = host.number().filter(|outside| *outside != 0) else {
            continue;
        };
        port_number(&host);
        if host_network && Some(outside) != number.number() {
            host.invalid("must match `containerPort` when `hostNetwork` is true");
        }
        let taken = [
            port.text_of("protocol"),
            port.text_of("hostIP"),
            &outside.to_string(),
        ]
        .join("/");
        if on_host.contains(&taken) {
            host.report(Cause::duplicate(host.path.as_str(), &json!(taken)));
        }
        on_host.push(taken);
    }
}
