//! The components of Berth that send requests to API servers, and the `User-Agent` of each component.

use std::fmt;

/// A component of Berth that sends requests under its own name.
///
/// API servers derive the default field manager from the `User-Agent`: it is the text before the first slash. Therefore
/// the component's name appears in `metadata.managedFields` and in audit logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Component {
    /// `berth scheduler` and the scheduler of `berth up`.
    Scheduler,
    /// `berth controllers` and the controllers of `berth up`.
    Controllers,
    /// `berth webhook`.
    Webhook,
    /// `berth simulate`.
    Simulate,
    /// The simulated workloads of `berth up`.
    Simulator,
    /// Every other `berth` command.
    CommandLine,
}

impl Component {
    /// Returns the component's name, which is also its field manager.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scheduler => "berth-scheduler",
            Self::Controllers => "berth-controllers",
            Self::Webhook => "berth-webhook",
            Self::Simulate => "berth-simulate",
            Self::Simulator => "berth-simulator",
            Self::CommandLine => "berth",
        }
    }

    /// Returns the `User-Agent` in the format of client-go.
    pub fn user_agent(self) -> String {
        format!(
            "{self}/v{} ({}/{})",
            env!("CARGO_PKG_VERSION"),
            std::env::consts::OS,
            go_architecture(std::env::consts::ARCH)
        )
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the name that Go uses for an architecture.
fn go_architecture(name: &str) -> &str {
    match name {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_agent_has_component_version_and_platform() {
        let text = Component::Scheduler.user_agent();
        let (name, rest) = text.split_once('/').unwrap();
        assert_eq!(name, "berth-scheduler");
        let version = concat!("v", env!("CARGO_PKG_VERSION"));
        assert_eq!(rest.split(' ').next(), Some(version));
        assert!(rest.ends_with(')') && rest.contains(" ("), "{text}");
        assert_eq!(go_architecture("x86_64"), "amd64");
    }
}
