//! The components of Berth that send requests to API servers, and the `User-Agent` of each component.

use std::fmt;

use berth_apimachinery::go_platform::go_platform;

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
    /// `berth estimator`.
    Estimator,
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
            Self::Estimator => "berth-estimator",
            Self::Simulate => "berth-simulate",
            Self::Simulator => "berth-simulator",
            Self::CommandLine => "berth",
        }
    }

    /// Returns the `User-Agent` in the format of client-go.
    pub fn user_agent(self) -> String {
        format!("{self}/v{} ({})", env!("CARGO_PKG_VERSION"), go_platform())
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
    }
}
