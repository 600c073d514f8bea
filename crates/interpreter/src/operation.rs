//! The operations of the interpreter, and the names that Karmada gives them.

use std::fmt;

use berth_api::interpreter_customization::{CustomizationRules, LuaRule};

/// An operation of the interpreter. The names are the same as in Karmada.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Retains the fields that a member owns.
    Retain,
    /// Reads the replicas of a template.
    InterpretReplica,
    /// Reads the components of a template.
    InterpretComponent,
    /// Sets the replicas of a manifest.
    ReviseReplica,
    /// Selects the status that a member reports.
    InterpretStatus,
    /// Aggregates the reports of the members.
    AggregateStatus,
    /// Reports whether an object in a member is healthy.
    InterpretHealth,
    /// Finds the objects that a template references.
    InterpretDependency,
}

impl Operation {
    /// All operations, in the order of the fields of a customization.
    pub const ALL: [Self; 8] = [
        Self::Retain,
        Self::InterpretReplica,
        Self::InterpretComponent,
        Self::ReviseReplica,
        Self::InterpretStatus,
        Self::AggregateStatus,
        Self::InterpretHealth,
        Self::InterpretDependency,
    ];

    /// Returns the name of the operation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Retain => "Retain",
            Self::InterpretReplica => "InterpretReplica",
            Self::InterpretComponent => "InterpretComponent",
            Self::ReviseReplica => "ReviseReplica",
            Self::InterpretStatus => "InterpretStatus",
            Self::AggregateStatus => "AggregateStatus",
            Self::InterpretHealth => "InterpretHealth",
            Self::InterpretDependency => "InterpretDependency",
        }
    }

    /// Returns the operation with this name. Ignores the case of the name.
    pub fn find(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|operation| operation.name().eq_ignore_ascii_case(name))
    }

    /// Returns the name of the function that a script declares for this operation.
    pub const fn function(self) -> &'static str {
        match self {
            Self::Retain => "Retain",
            Self::InterpretReplica => "GetReplicas",
            Self::InterpretComponent => "GetComponents",
            Self::ReviseReplica => "ReviseReplica",
            Self::InterpretStatus => "ReflectStatus",
            Self::AggregateStatus => "AggregateStatus",
            Self::InterpretHealth => "InterpretHealth",
            Self::InterpretDependency => "GetDependencies",
        }
    }

    /// Returns the field of a customization that contains the script for this operation.
    pub const fn field(self) -> &'static str {
        match self {
            Self::Retain => "retention",
            Self::InterpretReplica => "replicaResource",
            Self::InterpretComponent => "componentResource",
            Self::ReviseReplica => "replicaRevision",
            Self::InterpretStatus => "statusReflection",
            Self::AggregateStatus => "statusAggregation",
            Self::InterpretHealth => "healthInterpretation",
            Self::InterpretDependency => "dependencyInterpretation",
        }
    }

    /// Returns the script for this operation, or `None` if the script is absent or empty.
    pub fn script(self, rules: &CustomizationRules) -> Option<&str> {
        let rule: &Option<LuaRule> = match self {
            Self::Retain => &rules.retention,
            Self::InterpretReplica => &rules.replica_resource,
            Self::InterpretComponent => &rules.component_resource,
            Self::ReviseReplica => &rules.replica_revision,
            Self::InterpretStatus => &rules.status_reflection,
            Self::AggregateStatus => &rules.status_aggregation,
            Self::InterpretHealth => &rules.health_interpretation,
            Self::InterpretDependency => &rules.dependency_interpretation,
        };
        let script = rule.as_ref()?.lua_script.as_str();
        (!script.is_empty()).then_some(script)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
