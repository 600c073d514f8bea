//! Validation of probes and lifecycle hooks.

use super::field::Field;
use crate::error::Cause;

/// Checks the probes and hooks of a container. `grace` is the termination grace period of the pod.
pub(super) fn of_container(container: &Field<'_>, grace: i64, causes: &mut Vec<Cause>) {
    for hook in ["postStart", "preStop"] {
        let hook = container.field("lifecycle").field(hook);
        if hook.is_set() {
            handler(&hook, grace, causes);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.field(name);
        if probe.is_set() {
            thresholds(&probe, name, causes);
        }
    }
}

/// Refuses probes and hooks of init containers that end.
pub(super) fn of_init_container(container: &Field<'_>, causes: &mut Vec<Cause>) {
    for field in [
        "lifecycle",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
    ] {
        let field = container.field(field);
        if field.is_set() {
            let detail = "may not be set for init containers without restartPolicy=Always";
            field.forbidden(detail, causes);
        }
    }
}

fn thresholds(probe: &Field<'_>, name: &str, causes: &mut Vec<Cause>) {
    handler(probe, 0, causes);
    for field in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        probe.field(field).not_negative(causes);
    }
    let grace = probe.field("terminationGracePeriodSeconds");
    if name == "readinessProbe" {
        if grace.is_set() {
            grace.invalid("must not be set for readinessProbes", causes);
        }
        return;
    }
    if grace.number().is_some_and(|seconds| seconds <= 0) {
        grace.invalid("must be greater than 0", causes);
    }
    let successes = probe.field("successThreshold");
    if successes.number().is_some_and(|times| times != 1) {
        successes.invalid("must be 1", causes);
    }
}

fn handler(handler: &Field<'_>, grace: i64, causes: &mut Vec<Cause>) {
    let mut found = 0;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let action = handler.field(kind);
        if !action.is_set() {
            continue;
        }
        found += 1;
        if found > 1 {
            action.forbidden("may not specify more than 1 handler type", causes);
            continue;
        }
        match kind {
            "exec" => {
                let command = action.field("command");
                if command.count() == 0 {
                    command.required("", causes);
                }
            }
            "httpGet" => http(&action, causes),
            "tcpSocket" => action.field("port").port(causes),
            "sleep" => {
                let seconds = action.field("seconds").number().unwrap_or(0);
                if seconds < 0 || seconds > grace {
                    let detail = format!(
                        "must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                    );
                    action.invalid(&detail, causes);
                }
            }
            _ => action.field("port").port_number(causes),
        }
    }
    if found == 0 {
        handler.required("must specify a handler type", causes);
    }
}

fn http(action: &Field<'_>, causes: &mut Vec<Cause>) {
    action.field("path").not_empty(causes);
    action.field("port").port(causes);
    action
        .field("scheme")
        .exactly_one_of(&["HTTP", "HTTPS"], causes);
    for header in action.items("httpHeaders") {
        let name = header.field("name");
        let usual = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if name.text().is_empty() || !name.text().chars().all(usual) {
            let detail = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex \
                       used for validation is '[-A-Za-z0-9]+')";
            action.field("httpHeaders").invalid(detail, causes);
        }
    }
}
