//! The report about the decision for one binding: why each cluster was or was not selected, and which changes would lead
//! to another decision.
//!
//! ```text
//! control_plane_lists ──> find ──> analysis ──> recorded_report
//! ```
//!
//! `analysis` computes the decision for the current clusters, with the rules and options of the scheduler. If the
//! running scheduler has recorded its decision, `recorded_report` merges both. [`binding_report()`] does the same for a
//! fleet that the caller watches.

mod analysis;
mod binding_report;
mod error;
mod find;
mod recorded_report;

use berth_api::{Binding, BindingKey, ClusterScore, condition};
use berth_explain::Report;
use kube::Client;

pub use binding_report::binding_report;
pub use error::ExplainError;
pub use error::list as name_list;
pub use find::NameQuery;
pub(crate) use find::read as find_binding;
pub use recorded_report::SchedulerRecord;

use crate::control_plane_lists;
use crate::control_plane_state::Clusters;
use crate::scheduler_configuration::DecisionConfiguration;
use crate::what_if::Estimators;

/// A binding to explain, with the objects of its control plane that the decision depends on.
#[derive(Debug)]
pub struct Subject {
    binding: Binding,
    /// Bindings that were listed to find the binding.
    bindings: Vec<Binding>,
    clusters: Clusters,
    /// The ClusterScores, or the reason why they cannot be read.
    scores: Result<Vec<ClusterScore>, String>,
    /// Only cluster for which changes are searched. `None` means all clusters.
    cluster: Option<String>,
}

impl Subject {
    /// Finds the binding that a name selects, and reads the clusters. If `cluster` is set, changes are searched only for
    /// this cluster.
    ///
    /// # Errors
    /// Fails if there is no such binding or cluster, or if the control plane cannot be read.
    pub async fn find(
        client: &Client,
        query: &NameQuery,
        cluster: Option<&str>,
    ) -> Result<Self, ExplainError> {
        let (binding, bindings) = find::read(client, query).await?;
        let clusters = control_plane_lists::clusters(client).await?;
        let scores = control_plane_lists::scores(client).await;
        if let Some(name) = cluster
            && !clusters.contains_key(name)
        {
            return Err(ExplainError::no_cluster(name, clusters.keys()));
        }
        Ok(Self {
            binding,
            bindings,
            clusters,
            scores: scores.map_err(|error| error.to_string()),
            cluster: cluster.map(str::to_owned),
        })
    }

    /// Returns the key of the binding.
    pub fn key(&self) -> &BindingKey {
        &self.binding.key
    }

    /// Reports whether the binding is that of a dependency, which follows the workloads that need it.
    pub fn is_dependency(&self) -> bool {
        self.binding.spec.placement.is_none()
    }

    /// Returns the message of the last decision, if the binding is not scheduled.
    pub fn refusal(&self) -> Option<&str> {
        let scheduled = condition::scheduled(&self.binding.status.conditions)?;
        (scheduled.status != "True").then_some(&*scheduled.message)
    }

    /// Returns the binding.
    pub(crate) fn binding(&self) -> &Binding {
        &self.binding
    }

    /// Returns the clusters.
    pub(crate) fn clusters(&self) -> &Clusters {
        &self.clusters
    }

    /// Computes the decision for the current clusters, and returns the report about it, merged with the scheduler's
    /// record. Without a record, `record` is the reason.
    ///
    /// # Errors
    /// Fails if the configuration is invalid or has no profile for the binding, or if the binding has no placement.
    pub async fn report(
        &self,
        estimators: Option<&Estimators>,
        configuration: &DecisionConfiguration,
        record: SchedulerRecord,
    ) -> Result<Report, ExplainError> {
        let report = analysis::analyse(self, estimators, configuration).await?;
        let cluster = self.cluster.as_deref();
        Ok(recorded_report::merge(
            report,
            &self.binding,
            cluster,
            record.decision,
        ))
    }
}
