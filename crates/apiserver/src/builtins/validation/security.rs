//! Validation of security contexts.

use serde_json::json;

use super::field::Field;
use crate::error::Cause;

const PROFILES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];

/// Checks the security context of a pod.
pub(super) fn of_pod(spec: &Field<'_>, causes: &mut Vec<Cause>) {
    let context = spec.field("securityContext");
    if spec.value["shareProcessNamespace"] == true && spec.value["hostPID"] == true {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        let shared = context.field("shareProcessNamespace");
        shared.invalid(detail, causes);
    }
    for id in ["fsGroup", "runAsUser", "runAsGroup"] {
        self::id(&context.field(id), causes);
    }
    for group in context.items("supplementalGroups") {
        id(&group, causes);
    }
    let change = context.field("fsGroupChangePolicy");
    change.one_of(&["Always", "OnRootMismatch"], causes);
    let groups = context.field("supplementalGroupsPolicy");
    groups.one_of(&["Merge", "Strict"], causes);
    sysctls(&context, causes);
    profiles(&context, causes);
    let user = context.field("windowsOptions").field("runAsUserName");
    if user.value == "" {
        user.invalid("runAsUserName cannot be an empty string", causes);
    }
}

/// Checks the security context of a container.
pub(super) fn of_container(container: &Field<'_>, causes: &mut Vec<Cause>) {
    let context = container.field("securityContext");
    for id in ["runAsUser", "runAsGroup"] {
        self::id(&context.field(id), causes);
    }
    context
        .field("procMount")
        .one_of(&["Default", "Unmasked"], causes);
    profiles(&context, causes);
    if context.value["allowPrivilegeEscalation"] != false {
        return;
    }
    let detail = if context.value["privileged"] == true {
        "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
    } else if context.value["capabilities"]["add"]
        .as_array()
        .is_some_and(|added| added.contains(&json!("CAP_SYS_ADMIN")))
    {
        "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
    } else {
        return;
    };
    context.invalid(detail, causes);
}

fn id(id: &Field<'_>, causes: &mut Vec<Cause>) {
    let most = i64::from(i32::MAX);
    if id.number().is_some_and(|id| !(0..=most).contains(&id)) {
        id.invalid(&format!("must be between 0 and {most}, inclusive"), causes);
    }
}

fn sysctls(context: &Field<'_>, causes: &mut Vec<Cause>) {
    let mut taken: Vec<&str> = Vec::new();
    for sysctl in context.items("sysctls") {
        let name = sysctl.field("name");
        let part = |part: &str| {
            let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
            part.starts_with(edge)
                && part.ends_with(edge)
                && part.chars().all(|c| edge(c) || c == '-' || c == '_')
        };
        if name.text().is_empty() {
            name.required("", causes);
        } else if name.text().len() > 253 || !name.text().split(['.', '/']).all(part) {
            let detail = r"must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            name.invalid(detail, causes);
        } else if taken.contains(&name.text()) {
            name.duplicate(causes);
        }
        taken.push(name.text());
    }
}

fn profiles(context: &Field<'_>, causes: &mut Vec<Cause>) {
    for (name, called) in [
        ("seccompProfile", "seccomp"),
        ("appArmorProfile", "AppArmor"),
    ] {
        let profile = context.field(name);
        if !profile.is_set() {
            continue;
        }
        let (kind, local) = (profile.field("type"), profile.field("localhostProfile"));
        if kind.text().is_empty() {
            kind.required(&format!("type is required when {name} is set"), causes);
            continue;
        }
        kind.one_of(PROFILES, causes);
        if kind.text() == "Localhost" {
            if local.text().is_empty() {
                let detail = format!("must be set when {called} type is Localhost");
                local.required(&detail, causes);
            } else if local.text().starts_with('/') {
                local.invalid("must be a relative path", causes);
            }
        } else if local.is_set() {
            let detail = format!("can only be set when {called} type is Localhost");
            local.invalid(&detail, causes);
        }
    }
}
