//! Validation of security contexts.

use super::field::Field;
use super::rules::Check::{Between, By, OneOf, RequiredOneOf};
use super::rules::{Check, Rule, apply};

/// The range of users and groups.
const ID: Check = Between(0, i32::MAX as i64);

const POD: &[Rule] = &[
    ("fsGroup runAsUser runAsGroup supplementalGroups[]", ID),
    ("fsGroupChangePolicy", OneOf(&["Always", "OnRootMismatch"])),
    ("supplementalGroupsPolicy", OneOf(&["Merge", "Strict"])),
    ("sysctls", By(sysctls)),
    ("seccompProfile appArmorProfile", By(profile)),
    ("windowsOptions.runAsUserName", By(user_name)),
];

const CONTAINER: &[Rule] = &[
    ("runAsUser runAsGroup", ID),
    ("procMount", OneOf(&["Default", "Unmasked"])),
    ("seccompProfile appArmorProfile", By(profile)),
    ("", By(escalation)),
];

/// Checks the security context of a pod.
pub(super) fn of_pod(spec: &Field<'_>) {
    let context = spec.get("securityContext");
    if spec.value["shareProcessNamespace"] == true && spec.value["hostPID"] == true {
        let shared = context.get("shareProcessNamespace");
        shared.invalid("ShareProcessNamespace and HostPID cannot both be enabled");
    }
    apply(POD, &context);
}

/// Checks the security context of a container.
pub(super) fn of_container(context: &Field<'_>) {
    apply(CONTAINER, context);
}

fn user_name(name: &Field<'_>) {
    if name.value == "" {
        name.invalid("must not be empty");
    }
}

fn escalation(context: &Field<'_>) {
    let added = context.get("capabilities.add").texts();
    let gains = context.value["privileged"] == true || added.contains(&"CAP_SYS_ADMIN");
    if context.value["allowPrivilegeEscalation"] == false && gains {
        context.invalid("`allowPrivilegeEscalation` must be true if privileged or CAP_SYS_ADMIN");
    }
}

fn sysctls(sysctls: &Field<'_>) {
    let mut seen = Vec::new();
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let part = |part: &str| {
        part.starts_with(edge)
            && part.ends_with(edge)
            && part.chars().all(|c| edge(c) || c == '-' || c == '_')
    };
    for name in sysctls.each().map(|sysctl| sysctl.get("name")) {
        if name.is_empty() {
            name.required("");
        } else if name.text().len() > 253 || !name.text().split(['.', '/']).all(part) {
            name.invalid("must be the name of a kernel parameter of at most 253 characters");
        } else if seen.contains(&name.text()) {
            name.duplicate();
        }
        seen.push(name.text());
    }
}

/// Checks a profile of seccomp or AppArmor.
fn profile(profile: &Field<'_>) {
    if !profile.is_set() {
        return;
    }
    let (kind, local) = (profile.get("type"), profile.get("localhostProfile"));
    RequiredOneOf(&["Localhost", "RuntimeDefault", "Unconfined"]).apply(&kind);
    if kind.text() == "Localhost" {
        if local.is_empty() {
            local.required("must be set when `type` is Localhost");
        } else if local.text().starts_with('/') {
            local.invalid("must be a relative path");
        }
    } else if !kind.is_empty() && local.is_set() {
        local.invalid("may only be set when `type` is Localhost");
    }
}
