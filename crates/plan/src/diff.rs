//! The differences of one binding: between the wanted objects and the objects in the members, between the template and
//! the wanted objects, and among the wanted objects of several clusters. A wanted object is the manifest of a Work.
//!
//! ```text
//! explain::find ──> wanted (Works, template) ──> member (one request per cluster) ──> DiffReport
//!                      └──> overrides, between_clusters: pure ──> WantedReport
//! ```
//!
//! A member is asked for the result of an update in a dry run, as the controllers and `kubectl diff` do, because only
//! its server knows its defaults. Nothing is written.

mod between_clusters;
mod member;
mod overrides;
mod report;
mod secret_values;
mod shortened;
mod wanted;

use std::sync::Arc;
use std::time::Duration;

use berth_api::well_known::CONDITION_MIGRATING;
use berth_api::{Binding, Cluster, Work, condition};
use berth_apimachinery::field_changes::FieldChange;
use berth_diagnosis::{OverrideChanges, grouped};
use berth_interpreter::InterpretError;
use futures::StreamExt as _;
use futures::stream;
use kube::Client;
use tokio::time::Instant;

pub use report::{
    API_VERSION, ClusterDiff, ComparedBinding, DiffReport, DiffVerdict, FieldDiff, KIND,
    MemberDiff, Origin, Variation, VariationValue, WantedDiff, WantedReport,
};
pub use shortened::{shortened, shortened_pair};

use self::between_clusters::between_clusters;
use self::member::{Members, compare_member};
use self::overrides::{share_fields, template_diff};
use self::wanted::{ClusterWork, Wanted};
use crate::binding_objects::override_policies;
use crate::control_plane_lists;
use crate::explain::{ExplainError, NameQuery, find_binding};
use crate::member_access::MemberAccess;

/// Maximum number of members that are asked at the same time.
const CONCURRENT_MEMBERS: usize = 8;

/// Reason why no differences can be reported.
#[derive(Debug, thiserror::Error)]
pub enum DiffError {
    /// The binding or the cluster is not found, or the control plane cannot be read.
    #[error(transparent)]
    Find(#[from] ExplainError),
    /// The cluster has no copy of the workload.
    #[error("--cluster {cluster}: {name} has no copy there; {clusters}")]
    NoCopy {
        /// The name on the command line.
        name: String,
        /// The cluster on the command line.
        cluster: String,
        /// The clusters with a copy, as a clause.
        clusters: String,
    },
    /// The control plane did not return the wanted objects in time.
    #[error("the control plane did not return the Works and the template within {} s; try again later", .0.as_secs())]
    Late(Duration),
}

/// Compares the objects of the binding that a name selects, in all its clusters or in one. `forwarding` is the client
/// for requests that the control plane forwards to members.
///
/// # Errors
/// Fails if there is no such binding or cluster, or if the control plane cannot be read. A member that cannot be read
/// is part of the report.
pub async fn diff(
    client: &Client,
    forwarding: &Client,
    query: &NameQuery,
    cluster: Option<&str>,
) -> Result<DiffReport, DiffError> {
    let (binding, _) = find_binding(client, query).await?;
    let clusters = control_plane_lists::clusters(client).await;
    let clusters = clusters.map_err(ExplainError::from)?;
    let mut wanted = Wanted::read(client, &binding).await?;
    if let Some(name) = cluster {
        if !clusters.contains_key(name) {
            return Err(ExplainError::no_cluster(name, clusters.keys()).into());
        }
        wanted.works.retain(|work| work.cluster == name);
        if wanted.works.is_empty() {
            return Err(no_copy(query.name(), name, &binding));
        }
    }
    let find = |name: &str| clusters.get(name).cloned();
    let access = MemberAccess::find(client, forwarding).await;
    Ok(compared(&binding, wanted, access, find, None).await)
}

/// Compares the objects of a binding in all its clusters, within a time limit. `forwarding` is the client for requests
/// that the control plane forwards to members, and `cluster` returns the object of a cluster.
///
/// # Errors
/// Fails if the Works cannot be read in time. A member that cannot be read in time is part of the report.
pub async fn diff_within(
    limit: Duration,
    client: &Client,
    forwarding: &Client,
    binding: &Binding,
    cluster: impl Fn(&str) -> Option<Arc<Cluster>>,
) -> Result<DiffReport, DiffError> {
    let deadline = Instant::now() + limit;
    let read = async {
        let wanted = Wanted::read(client, binding).await?;
        Ok::<_, ExplainError>((wanted, MemberAccess::find(client, forwarding).await))
    };
    let read = tokio::time::timeout_at(deadline, read).await;
    let (wanted, access) = read.map_err(|_| DiffError::Late(limit))??;
    Ok(compared(binding, wanted, access, cluster, Some(deadline)).await)
}

/// Compares the wanted objects of a binding with its template and with each other. No member is asked.
///
/// # Errors
/// Fails if the Works cannot be read.
pub async fn wanted_diff(client: &Client, binding: &Binding) -> Result<WantedReport, ExplainError> {
    let wanted = Wanted::read(client, binding).await?;
    let clusters = wanted.works.iter();
    let mut report = WantedReport {
        clusters: clusters
            .map(|work| template_comparison(binding, &wanted, work))
            .collect(),
        between_clusters: between_clusters(&wanted.works),
        notes: wanted.notes,
    };
    if is_secret(binding) {
        secret_values::mask_wanted(&mut report);
    }
    Ok(report)
}

async fn compared(
    binding: &Binding,
    wanted: Wanted,
    access: MemberAccess,
    cluster: impl Fn(&str) -> Option<Arc<Cluster>>,
    deadline: Option<Instant>,
) -> DiffReport {
    let members = Members {
        access,
        interpreter: &wanted.interpreter,
        deadline,
    };
    let questions: Vec<_> = wanted
        .works
        .iter()
        .map(|work| cluster_diff(&members, binding, &wanted, work, cluster(&work.cluster)))
        .collect();
    // In their order, all members would have to wait for the slowest one.
    let compared = stream::iter(questions).buffer_unordered(CONCURRENT_MEMBERS);
    let mut compared: Vec<ClusterDiff> = compared.collect().await;
    compared.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    let between = between_clusters(&wanted.works);
    let mut notes = wanted.notes;
    if compared.is_empty() {
        notes.push(
            "no cluster has a copy; `berth explain` shows why the workload is not placed"
                .to_owned(),
        );
    }
    let mut report = DiffReport {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        binding: ComparedBinding::of(binding),
        clusters: compared,
        between_clusters: between,
        notes,
    };
    if is_secret(binding) {
        secret_values::mask(&mut report);
    }
    report
}

fn is_secret(binding: &Binding) -> bool {
    let resource = &binding.spec.resource;
    (resource.api_version.as_str(), resource.kind.as_str()) == ("v1", "Secret")
}

/// Returns the changes that override policies make to the objects of Works, each with its cluster. The Works are those of
/// the binding. A Work that is made from an earlier template is left out until it follows.
pub(crate) async fn override_changes(
    client: &Client,
    binding: &Binding,
    works: Vec<(String, Work)>,
) -> Vec<OverrideChanges> {
    let is_overridden = |(_, work): &(String, Work)| !override_policies(work).is_empty();
    if !works.iter().any(is_overridden) {
        return Vec::new();
    }
    let wanted = Wanted::of(client, binding, works).await;
    // While the workload moves, its replicas differ from the scheduler's result without an override policy.
    let template = wanted.template.as_ref().filter(|_| moves(binding));
    let shares = template.and_then(|template| share_fields(template, &wanted.interpreter).ok());
    let shares = shares.unwrap_or_default();
    let changes = wanted.works.iter().filter_map(|work| {
        let policies = override_policies(work.work.as_ref()?);
        if policies.is_empty() || !work.is_current() {
            return None;
        }
        let compared = compared_with_template(binding, &wanted, work, &policies);
        let fields = compared.ok().filter(|_| wanted.template.is_some());
        let fields = fields.map(|mut fields| {
            fields
                .retain(|diff| diff.origin != Some(Origin::Share) && !shares.contains(&diff.field));
            if is_secret(binding) {
                secret_values::mask_fields(&mut fields);
            }
            fields.into_iter().map(FieldChange::from).collect()
        });
        Some(OverrideChanges {
            clusters: vec![work.cluster.clone()],
            policies,
            fields,
        })
    });
    grouped(changes)
}

/// Reports whether old replicas of a workload wait for new ones.
fn moves(binding: &Binding) -> bool {
    !binding.spec.graceful_eviction_tasks.is_empty()
        || condition::is_true(&binding.status.conditions, CONDITION_MIGRATING)
}

/// Compares a wanted object with the template.
///
/// # Errors
/// When the interpreter cannot set the replicas.
fn compared_with_template(
    binding: &Binding,
    wanted: &Wanted,
    work: &ClusterWork,
    override_policies: &[String],
) -> Result<Vec<FieldDiff>, InterpretError> {
    let (Some(template), Some(manifest)) = (&wanted.template, work.manifest()) else {
        return Ok(Vec::new());
    };
    let replicas = work.replicas.filter(|_| binding.spec.is_workload());
    let interpreter = &wanted.interpreter;
    template_diff(template, manifest, replicas, override_policies, interpreter)
}

async fn cluster_diff(
    members: &Members<'_>,
    binding: &Binding,
    wanted: &Wanted,
    work: &ClusterWork,
    cluster: Option<Arc<Cluster>>,
) -> ClusterDiff {
    let WantedDiff {
        cluster: name,
        template,
        override_policies,
        mut notes,
    } = template_comparison(binding, wanted, work);
    let member = match work.manifest() {
        None => MemberDiff::NoWork,
        Some(manifest) => {
            let compared = compare_member(members, manifest, &name, cluster.as_deref()).await;
            notes.extend(compared.1);
            compared.0
        }
    };
    ClusterDiff {
        cluster: name,
        member,
        template,
        override_policies,
        notes,
    }
}

/// Compares the wanted object of a cluster with the template.
fn template_comparison(binding: &Binding, wanted: &Wanted, work: &ClusterWork) -> WantedDiff {
    let mut diff = WantedDiff {
        cluster: work.cluster.clone(),
        template: Vec::new(),
        override_policies: Vec::new(),
        notes: work.notes(),
    };
    let Some(stored) = &work.work else {
        return diff;
    };
    diff.override_policies = override_policies(stored);
    match compared_with_template(binding, wanted, work, &diff.override_policies) {
        Ok(compared) => diff.template = compared,
        Err(error) => diff.notes.push(error.to_string()),
    }
    diff
}

fn no_copy(name: &str, cluster: &str, binding: &Binding) -> DiffError {
    let targets = binding.spec.targets();
    let targets: Vec<String> = targets.into_iter().map(|target| target.name).collect();
    DiffError::NoCopy {
        name: name.to_owned(),
        cluster: cluster.to_owned(),
        clusters: if targets.is_empty() {
            "it is in no cluster".to_owned()
        } else {
            format!("it is in {}", crate::explain::name_list(&targets))
        },
    }
}

#[cfg(test)]
mod tests;
