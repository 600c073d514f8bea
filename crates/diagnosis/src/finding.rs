//! Findings: what keeps a workload from being well, at which station, and what to do.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::health::Health;
use crate::quota_shortage::QuotaShortage;

/// A station on the way of a workload from its template to the members, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Station {
    /// The template in the control plane.
    Template,
    /// The policy that selects the template.
    Policy,
    /// The decision about the clusters.
    Scheduling,
    /// Suspensions, evictions and moves between clusters.
    Dispatch,
    /// The override policies.
    Overrides,
    /// The application in the members.
    Apply,
    /// The objects and pods in the members.
    Run,
    /// The status that is reported back to the binding and the template.
    Status,
}

impl Station {
    /// All stations in order.
    pub const ALL: [Self; 8] = [
        Self::Template,
        Self::Policy,
        Self::Scheduling,
        Self::Dispatch,
        Self::Overrides,
        Self::Apply,
        Self::Run,
        Self::Status,
    ];

    /// Returns the name for a person.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Template => "template",
            Self::Policy => "policy",
            Self::Scheduling => "scheduling",
            Self::Dispatch => "dispatch",
            Self::Overrides => "overrides",
            Self::Apply => "apply",
            Self::Run => "run",
            Self::Status => "status",
        }
    }
}

/// Declares the reasons with their words, which are their names.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The cause of a finding in one CamelCase word, for conditions, scripts and filters.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// Returns the word.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// Returns the reason with this word.
            pub fn parse(word: &str) -> Option<Self> {
                match word {
                    $(stringify!($name) => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

reasons! {
    /// The control plane does not have the template.
    TemplateMissing,
    /// The template is being deleted.
    TemplateDeleting,
    /// No policy selects the template.
    NoPolicy,
    /// A policy selects the template, and the binding does not exist yet.
    NoBinding,
    /// The scheduler has not decided yet.
    NotScheduledYet,
    /// The binding names a scheduler that does not seem to run.
    SchedulerAbsent,
    /// The scheduler found no cluster.
    Unschedulable,
    /// The scheduler evicts other bindings, and waits for their capacity.
    Preempting,
    /// A plugin of the scheduler holds the binding back.
    PluginRefused,
    /// The scheduler cannot decide, for example because an extender fails.
    SchedulerError,
    /// A quota is used up.
    QuotaExceeded,
    /// Scheduling is suspended.
    SchedulingSuspended,
    /// The binding has no clusters, because no replicas are wanted or nothing depends on it.
    NoClusters,
    /// Dispatching is suspended.
    DispatchingSuspended,
    /// Old copies wait for the new ones.
    Migrating,
    /// The workload is being evicted from a cluster.
    Evicting,
    /// An override policy cannot be applied.
    OverrideFailed,
    /// The resource is not applied in a cluster yet.
    NotAppliedYet,
    /// An object that another owner manages is in the way.
    Conflict,
    /// The member refuses the object.
    Refused,
    /// The control plane lacks rights in the member.
    Forbidden,
    /// The member cannot be reached.
    Unreachable,
    /// The member does not serve the kind.
    KindNotServed,
    /// The resource could not be applied, for another reason.
    ApplyFailed,
    /// Replicas are starting.
    Starting,
    /// Replicas are not ready.
    NotReady,
    /// Containers crash.
    CrashLoopBackOff,
    /// Images cannot be pulled.
    ImagePullBackOff,
    /// No node can run the pods.
    PodsUnschedulable,
    /// The configuration of containers refers to something that does not exist.
    ContainerConfigError,
    /// Pods have failed and do not restart.
    PodsFailed,
    /// Pods cannot be created, for example because of a quota in the member.
    PodsNotCreated,
    /// The member reports the object as unhealthy.
    Unhealthy,
    /// The status of a cluster that is not ready is outdated.
    StaleStatus,
    /// The cluster does not exist any more.
    ClusterMissing,
}

impl Reason {
    /// Reports whether the cause is a decision of the scheduler.
    pub const fn is_about_decision(self) -> bool {
        matches!(
            self,
            Self::Unschedulable
                | Self::Preempting
                | Self::PluginRefused
                | Self::SchedulerError
                | Self::QuotaExceeded
        )
    }

    /// Reports whether the cause was found at the pods of a workload.
    pub const fn is_about_pods(self) -> bool {
        matches!(
            self,
            Self::CrashLoopBackOff
                | Self::ImagePullBackOff
                | Self::PodsUnschedulable
                | Self::ContainerConfigError
                | Self::PodsFailed
                | Self::PodsNotCreated
        )
    }
}

/// A cause for which a workload is not well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The station at which the workload is held up.
    pub station: Station,
    /// The severity.
    pub health: Health,
    /// The cause in one word.
    pub reason: Reason,
    /// The member cluster, or `None` if the finding is about the workload as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The cause in one sentence, without a full stop.
    pub message: String,
    /// The next action in one sentence, or `None` if no action is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// The time since which it is so, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The shortage of the quota that refuses the workload, if it was looked up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaShortage>,
}

impl Finding {
    /// Creates a finding about the workload as a whole.
    pub fn new(
        station: Station,
        health: Health,
        reason: Reason,
        message: impl Into<String>,
    ) -> Self {
        Self {
            station,
            health,
            reason,
            cluster: None,
            message: message.into(),
            fix: None,
            since: None,
            quota: None,
        }
    }

    /// Sets the cluster.
    #[must_use]
    pub fn in_cluster(self, cluster: &str) -> Self {
        Self {
            cluster: Some(cluster.to_owned()),
            ..self
        }
    }

    /// Sets the next action.
    #[must_use]
    pub fn with_fix(self, fix: impl Into<String>) -> Self {
        Self {
            fix: Some(fix.into()),
            ..self
        }
    }

    /// Replaces the cause and the next action of a finding about a quota by those of the shortage.
    #[must_use]
    pub(crate) fn with_quota(self, shortage: &QuotaShortage) -> Self {
        if self.reason != Reason::QuotaExceeded {
            return self;
        }
        Self {
            message: shortage.cause(),
            fix: Some(shortage.fix()),
            quota: Some(shortage.clone()),
            ..self
        }
    }

    /// Sets the time since which it is so.
    #[must_use]
    pub fn since(self, since: Option<Timestamp>) -> Self {
        Self { since, ..self }
    }
}
