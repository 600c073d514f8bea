//! Validation of pod specs, alone and in templates.

use std::collections::HashSet;

use super::field::Field;
use super::{container, ephemeral, placement, resources, security, volume};
use crate::error::Cause;
use crate::names;

const DNS_POLICIES: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
/// Limits of a resolver configuration.
const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;

/// Checks a pod spec.
pub(super) fn spec(spec: &Field<'_>, causes: &mut Vec<Cause>) {
    let mut volumes: HashSet<&str> = HashSet::new();
    let account = !spec.field("serviceAccountName").text().is_empty();
    for volume in spec.items("volumes") {
        named(&volume, &mut volumes, causes);
        volume::source(&volume, account, causes);
    }
    let containers = spec.field("containers");
    if containers.count() == 0 {
        containers.required("", causes);
    }
    let mut names: HashSet<&str> = HashSet::new();
    for list in ["containers", "initContainers"] {
        for container in spec.items(list) {
            named(&container, &mut names, causes);
            container::check(&container, list, spec, &volumes, causes);
        }
    }
    ephemeral::containers(spec, &volumes, causes);
    let restart = spec.field("restartPolicy");
    restart.one_of(&["Always", "OnFailure", "Never"], causes);
    spec.field("dnsPolicy").one_of(DNS_POLICIES, causes);
    let selector = spec.field("nodeSelector");
    names::labels(selector.value, &selector.path, causes);
    security::of_pod(spec, causes);
    placement::of_pod(spec, causes);
    dns(spec, causes);
    for gate in spec.items("readinessGates") {
        gate.field("conditionType").qualified(causes);
    }
    let mut gates: HashSet<&str> = HashSet::new();
    for gate in spec.items("schedulingGates") {
        let name = gate.field("name");
        let shown = Field::new(name.value, gate.path.as_str());
        shown.qualified(causes);
        if !gates.insert(name.text()) {
            shown.duplicate(causes);
        }
    }
    resources::of_container(&spec.field("resources"), causes);
    let account = spec.field("serviceAccountName");
    account.optional(names::subdomain, causes);
    spec.field("nodeName").optional(names::subdomain, causes);
    let deadline = spec.field("activeDeadlineSeconds");
    let most = i64::from(i32::MAX);
    if deadline.number().is_some_and(|s| !(1..=most).contains(&s)) {
        let detail = format!("must be between 1 and {most}, inclusive");
        deadline.invalid(&detail, causes);
    }
    for field in ["hostname", "subdomain"] {
        spec.field(field).optional(names::dns_label, causes);
    }
    for alias in spec.items("hostAliases") {
        let ip = alias.field("ip");
        ip.problems(names::ip(ip.text()), causes);
        for name in alias.items("hostnames") {
            name.problems(names::subdomain(name.text()), causes);
        }
    }
    let class = spec.field("priorityClassName");
    class.optional(names::subdomain, causes);
    let system = spec.field("os");
    if system.is_set() {
        let name = system.field("name");
        if name.text().is_empty() {
            name.required("", causes);
        } else if !matches!(name.text(), "linux" | "windows") {
            let known = ["linux", "windows"].map(str::to_owned);
            let path = system.path.as_str();
            causes.push(Cause::not_supported(path, name.value, &known));
        }
    }
}

/// Checks a name that must be a unique label.
fn named<'a>(item: &Field<'a>, taken: &mut HashSet<&'a str>, causes: &mut Vec<Cause>) {
    let name = item.field("name");
    let is_new = taken.insert(name.text());
    if name.text().is_empty() {
        name.required("", causes);
    } else if let Some(problem) = names::dns_label(name.text()) {
        name.invalid(&problem, causes);
    } else if !is_new {
        name.duplicate(causes);
    }
}

fn dns(spec: &Field<'_>, causes: &mut Vec<Cause>) {
    let config = spec.field("dnsConfig");
    let servers = config.field("nameservers");
    if spec.value["dnsPolicy"] == "None" {
        if !config.is_set() {
            config.required("must provide `dnsConfig` when `dnsPolicy` is None", causes);
            return;
        }
        if servers.count() == 0 {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            servers.required(detail, causes);
            return;
        }
    }
    if servers.count() > MAX_NAMESERVERS {
        let detail = format!("must not have more than {MAX_NAMESERVERS} nameservers");
        servers.invalid(&detail, causes);
    }
    for server in servers.each() {
        server.problems(names::ip(server.text()), causes);
    }
    let searches = config.field("searches");
    if searches.count() > MAX_SEARCHES {
        let detail = format!("must not have more than {MAX_SEARCHES} search paths");
        searches.invalid(&detail, causes);
    }
    for search in searches.each() {
        let domain = search.text();
        if domain != "." {
            let domain = domain.strip_suffix('.').unwrap_or(domain);
            search.problems(names::search_domain(domain), causes);
        }
    }
    for option in config.items("options") {
        if option.field("name").text().is_empty() {
            option.required("must not be empty", causes);
        }
    }
}

/// Refuses fields that the template of a controller cannot have.
pub(super) fn of_controller(spec: &Field<'_>, controller: &str, causes: &mut Vec<Cause>) {
    let deadline = spec.field("activeDeadlineSeconds");
    if deadline.is_set() {
        let detail = format!("activeDeadlineSeconds in {controller} is not Supported");
        deadline.forbidden(&detail, causes);
    }
}

/// Refuses ephemeral containers.
pub(super) fn no_ephemeral(spec: &Field<'_>, detail: &str, causes: &mut Vec<Cause>) {
    let containers = spec.field("ephemeralContainers");
    if containers.count() > 0 {
        containers.forbidden(detail, causes);
    }
}

/// Returns the termination grace period.
pub(super) fn grace(spec: &Field<'_>) -> i64 {
    /// The default grace period.
    const DEFAULT: i64 = 30;
    let seconds = spec.field("terminationGracePeriodSeconds");
    seconds.number().unwrap_or(DEFAULT)
}
