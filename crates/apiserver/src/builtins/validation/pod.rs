//! Validation of pod specs, alone and in templates.

use super::checks::{keys, labels, qualified};
use super::field::Field;
use super::rules::Check::{Between, By, OneOf, OptionalText, Required, RequiredText, Text};
use super::rules::{Rule, apply};
use super::{container, ephemeral, placement, resources, security, volume};
use crate::names;

const SPEC: &[Rule] = &[
    ("", By(volumes)),
    ("containers", Required),
    ("", By(containers)),
    ("", By(ephemeral::containers)),
    ("restartPolicy", OneOf(&["Always", "OnFailure", "Never"])),
    (
        "dnsPolicy",
        OneOf(&["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]),
    ),
    ("nodeSelector", By(labels)),
    ("", By(security::of_pod)),
    ("", By(placement::of_pod)),
    ("", By(dns)),
    ("readinessGates[].conditionType", By(qualified)),
    ("schedulingGates", By(scheduling_gates)),
    ("resources", By(resources::of_container)),
    (
        "serviceAccountName nodeName priorityClassName",
        OptionalText(names::subdomain),
    ),
    ("activeDeadlineSeconds", Between(1, i32::MAX as i64)),
    ("hostname subdomain", OptionalText(names::dns_label)),
    ("hostAliases[].ip", Text(names::ip)),
    ("hostAliases[].hostnames[]", Text(names::subdomain)),
    ("os", By(system)),
];

/// Checks a pod spec.
pub(super) fn spec(spec: &Field<'_>) {
    apply(SPEC, spec);
}

/// Checks a pod template.
pub(super) fn template(template: &Field<'_>) {
    // Kubernetes omits `metadata` from these paths.
    for (map, check) in [("labels", labels as fn(&Field<'_>)), ("annotations", keys)] {
        let path = format!("{}.{map}", template.path);
        check(&template.get("metadata").get(map).reported_at(path));
    }
    let pods = template.get("spec");
    spec(&pods);
    no_ephemeral(&pods);
}

/// Refuses ephemeral containers, which can only be added to running pods.
pub(super) fn no_ephemeral(spec: &Field<'_>) {
    let containers = spec.get("ephemeralContainers");
    if containers.count() > 0 {
        containers.forbidden("may only be added to existing pods");
    }
}

/// Returns the termination grace period.
pub(super) fn grace(spec: &Field<'_>) -> i64 {
    /// The default grace period.
    const DEFAULT: i64 = 30;
    let seconds = spec.get("terminationGracePeriodSeconds");
    seconds.number().unwrap_or(DEFAULT)
}

fn volumes(spec: &Field<'_>) {
    unique_labels(spec.items("volumes"));
    let account = !spec.get("serviceAccountName").is_empty();
    for volume in spec.items("volumes") {
        volume::source(&volume, account);
    }
}

fn containers(spec: &Field<'_>) {
    unique_labels(spec.items("containers").chain(spec.items("initContainers")));
    for container in spec.items("containers") {
        container::main(&container, spec);
    }
    for container in spec.items("initContainers") {
        container::init(&container, spec);
    }
}

/// Checks that the names of items are unique labels.
fn unique_labels<'a>(items: impl Iterator<Item = Field<'a>>) {
    let mut seen = Vec::new();
    for item in items {
        let name = item.get("name");
        if !name.is_empty()
            && names::dns_label(name.text()).is_none()
            && seen.contains(&name.text())
        {
            name.duplicate();
        }
        RequiredText(names::dns_label).apply(&name);
        seen.push(name.text());
    }
}

fn scheduling_gates(gates: &Field<'_>) {
    let mut seen = Vec::new();
    for gate in gates.each() {
        let name = gate.get("name").reported_at(gate.path);
        qualified(&name);
        if seen.contains(&name.text()) {
            name.duplicate();
        }
        seen.push(name.text());
    }
}

fn system(system: &Field<'_>) {
    let name = system.get("name");
    if system.is_set() && name.is_empty() {
        name.required("");
    } else if system.is_set() && !matches!(name.text(), "linux" | "windows") {
        name.reported_at(system.path.as_str())
            .not_supported(&["linux", "windows"]);
    }
}

/// Limits of a resolver configuration.
const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;

fn dns(spec: &Field<'_>) {
    let config = spec.get("dnsConfig");
    let (servers, searches) = (config.get("nameservers"), config.get("searches"));
    if spec.text_of("dnsPolicy") == "None" {
        for needed in [&config, &servers] {
            if !needed.is_set() || needed.path == servers.path && needed.count() == 0 {
                return needed.required("must be set when `dnsPolicy` is None");
            }
        }
    }
    if servers.count() > MAX_NAMESERVERS {
        servers.invalid(&format!("must have at most {MAX_NAMESERVERS} nameservers"));
    }
    if searches.count() > MAX_SEARCHES {
        searches.invalid(&format!("must have at most {MAX_SEARCHES} search paths"));
    }
    for server in servers.each() {
        server.problem(names::ip(server.text()));
    }
    for search in searches.each().filter(|search| search.text() != ".") {
        let domain = search.text();
        search.problem(names::search_domain(
            domain.strip_suffix('.').unwrap_or(domain),
        ));
    }
    for option in config.items("options") {
        if option.get("name").is_empty() {
            option.required("must have a name");
        }
    }
}
