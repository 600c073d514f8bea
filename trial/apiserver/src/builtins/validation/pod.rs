//! Validation of the specs of pods and of pod templates. `pod_update` validates changes of pods.

use super::checks::{keys, labels, qualified};
use super::container::{ID, PROFILE};
use super::field::Field;
use super::rules::Check::{Between, By, IfSet, OneOf, OptionalText, Required, RequiredText, Text};
use super::rules::{Rule, apply};
use super::{container, pod_scheduling, resources, volume};
use crate::text_rules;

const SPEC: &[Rule] = &[
    ("", By(volumes)),
    ("containers", Required),
    ("", By(containers)),
    ("restartPolicy", OneOf(&["Always", "OnFailure", "Never"])),
    (
        "dnsPolicy",
        OneOf(&["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]),
    ),
    ("nodeSelector", By(labels)),
    (
        "securityContext",
        By(|context| apply(SECURITY_CONTEXT, context)),
    ),
    ("", By(|spec| apply(pod_scheduling::POD, spec))),
    ("dnsConfig.nameservers[]", Text(text_rules::ip)),
    ("", By(dns)),
    ("readinessGates[].conditionType", By(qualified)),
    ("resources", By(resources::of_container)),
    (
        "",
        By(|spec| container::device_claims(&spec.get("resources"), spec)),
    ),
    (
        "serviceAccountName nodeName priorityClassName",
        OptionalText(text_rules::subdomain),
    ),
    ("activeDeadlineSeconds", Between(1, i32::MAX as i64)),
    ("hostname subdomain", OptionalText(text_rules::dns_label)),
    ("hostAliases[].ip", Text(text_rules::ip)),
    ("hostAliases[].hostnames[]", Text(text_rules::subdomain)),
];

const SECURITY_CONTEXT: &[Rule] = &[
    ("fsGroup runAsUser runAsGroup supplementalGroups[]", ID),
    ("fsGroupChangePolicy", OneOf(&["Always", "OnRootMismatch"])),
    ("seccompProfile appArmorProfile", IfSet(PROFILE)),
    ("sysctls[].name", Required),
];

/// Checks a pod spec.
pub(super) fn spec(spec: &Field<'_>) {
    apply(SPEC, spec);
}

/// Checks a pod template.
pub(super) fn template(template: &Field<'_>) {
    // As in Kubernetes, the paths of causes for labels and annotations omit `metadata`.
    for (map, check) in [("labels", labels as fn(&Field<'_>)), ("annotations", keys)] {
        let path = format!("{}.{map}", template.path);
        check(&template.get("metadata").get(map).reported_at(path));
    }
    spec(&template.get("spec"));
}

fn volumes(spec: &Field<'_>) {
    unique_labels(spec.items("volumes"));
    for volume in spec.items("volumes") {
        volume::source(&volume);
    }
}

fn containers(spec: &Field<'_>) {
    unique_labels(
        ["containers", "initContainers", "ephemeralContainers"]
            .into_iter()
            .flat_map(|list| spec.items(list)),
    );
    for container in spec.items("containers") {
        container::main(&container, spec);
    }
    for container in spec.items("initContainers") {
        container::init(&container, spec);
    }
    for container in spec.items("ephemeralContainers") {
        container::common(&container, spec);
        let target = container.get("targetContainerName");
        if !target.is_empty() && !has_container(spec, target.text()) {
            target.not_found();
        }
    }
}

/// Reports whether a pod has a container or an init container with this name.
pub(super) fn has_container(spec: &Field<'_>, name: &str) -> bool {
    let mut all = spec.items("containers").chain(spec.items("initContainers"));
    all.any(|container| container.text_of("name") == name)
}

/// Checks that the names of items are unique DNS labels.
fn unique_labels<'a>(items: impl Iterator<Item = Field<'a>>) {
    let mut seen = Vec::new();
    for item in items {
        let name = item.get("name");
        if text_rules::dns_label(name.text()).is_none() && seen.contains(&name.text()) {
            name.duplicate();
        }
        RequiredText(text_rules::dns_label).apply(&name);
        seen.push(name.text());
    }
}

fn dns(spec: &Field<'_>) {
    let config = spec.get("dnsConfig");
    if spec.text_of("dnsPolicy") != "None" {
    } else if !config.is_set() {
        config.required("must be set when `dnsPolicy` is None");
    } else {
        Required.apply(&config.get("nameservers"));
    }
}
