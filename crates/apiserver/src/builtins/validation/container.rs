//! Validation of containers.

use std::collections::HashSet;

use serde_json::json;

use super::field::Field;
use super::{environment, pod, probe, resources, security, volume};
use crate::error::Cause;
use crate::names;

const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// Checks a container, except for its name.
pub(super) fn check(
    container: &Field<'_>,
    list: &str,
    spec: &Field<'_>,
    volumes: &HashSet<&str>,
    causes: &mut Vec<Cause>,
) {
    image(container, causes);
    let restart = container.field("restartPolicy");
    restart.one_of(&["Always", "Never", "OnFailure"], causes);
    if list == "initContainers" && restart.text() != "Always" {
        probe::of_init_container(container, causes);
    } else {
        probe::of_container(container, pod::grace(spec), causes);
    }
    settings(container, spec, volumes, causes);
}

/// Checks the fields that all kinds of containers have.
pub(super) fn common(
    container: &Field<'_>,
    spec: &Field<'_>,
    volumes: &HashSet<&str>,
    causes: &mut Vec<Cause>,
) {
    image(container, causes);
    settings(container, spec, volumes, causes);
}

fn image(container: &Field<'_>, causes: &mut Vec<Cause>) {
    let image = container.field("image");
    if image.text().is_empty() {
        image.required("", causes);
    } else if image.text().trim() != image.text() {
        image.invalid("must not have leading or trailing whitespace", causes);
    }
}

fn settings(
    container: &Field<'_>,
    spec: &Field<'_>,
    volumes: &HashSet<&str>,
    causes: &mut Vec<Cause>,
) {
    container
        .field("imagePullPolicy")
        .one_of(PULL_POLICIES, causes);
    let messages = container.field("terminationMessagePolicy");
    messages.one_of(&["File", "FallbackToLogsOnError"], causes);
    ports(container, spec.value["hostNetwork"] == true, causes);
    environment::of_container(container, causes);
    volume::mounts(container, volumes, causes);
    security::of_container(container, causes);
    resources::of_container(&container.field("resources"), causes);
}

fn ports(container: &Field<'_>, host_network: bool, causes: &mut Vec<Cause>) {
    let mut taken: HashSet<&str> = HashSet::new();
    let mut on_host: HashSet<String> = HashSet::new();
    for port in container.items("ports") {
        let name = port.field("name");
        if !name.text().is_empty() {
            let problems = names::port_name(name.text());
            if !taken.insert(name.text()) && problems.is_empty() {
                name.duplicate(causes);
            }
            name.problems(problems, causes);
        }
        let number = port.field("containerPort");
        if number.number().unwrap_or(0) == 0 {
            number.required("", causes);
        } else {
            number.port_number(causes);
        }
        let host = port.field("hostPort");
        if let Some(outside) = host.number().filter(|outside| *outside != 0) {
            host.port_number(causes);
            if host_network && Some(outside) != number.number() {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                host.invalid(detail, causes);
            }
            let text = |field: &str| port.field(field).text();
            let host_port = format!("{}/{}/{outside}", text("protocol"), text("hostIP"));
            if !on_host.insert(host_port.clone()) {
                causes.push(Cause::duplicate(host.path.as_str(), &json!(host_port)));
            }
        }
        port.field("protocol").one_of(PROTOCOLS, causes);
    }
}
