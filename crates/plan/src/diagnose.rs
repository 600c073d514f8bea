//! The diagnosis of one workload, with the evidence that only requests about it can find: its template, the policies, its
//! Works, and its objects and pods in the members.
//!
//! The requests only read. Evidence that a user may not read is reported as such, and the rest is still diagnosed.

mod member;
mod policies;
mod quota;
mod template;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::{Binding, Cluster};
use berth_diagnosis::{
    ClusterState, CopyRow, CopyState, Diagnosis, Evidence, MemberEvidence, OverrideChanges,
    PolicyEvidence, Seen,
};
use futures::future::join_all;
use jiff::Timestamp;
use kube::Client;

use self::template::FoundTemplate;
use crate::binding_objects::works;
use crate::control_plane_lists;
use crate::control_plane_state::Clusters;
use crate::diff::override_changes;
use crate::explain::{ExplainError, NameQuery, Subject};
use crate::member_access::MemberAccess;

/// Maximum number of members that are looked at.
const MEMBERS: usize = 5;

/// The diagnosis of one workload.
#[derive(Clone, Debug)]
pub struct WorkloadDiagnosis {
    /// The kind and name of the workload, such as `Deployment shop/web`.
    pub workload: String,
    /// The diagnosis.
    pub diagnosis: Diagnosis,
}

/// Diagnoses the workload of a binding.
pub async fn of_subject(client: &Client, subject: &Subject) -> WorkloadDiagnosis {
    let (binding, clusters) = (subject.binding(), subject.clusters());
    let resource = &binding.spec.resource;
    // 1. The template comes first, because its labels decide which policies select it.
    let template = template::read(client, resource).await;
    // 2. A dependency has no policy of its own.
    let policies = match &template {
        _ if binding.spec.placement.is_none() => Seen::Absent,
        Seen::Found(found) => policy_evidence(client, found).await,
        Seen::Absent => Seen::Found(PolicyEvidence {
            holds: binding.policy().map(str::to_owned),
            ..PolicyEvidence::default()
        }),
        Seen::Hidden(why) => Seen::Hidden(why.clone()),
    };
    let states: BTreeMap<String, ClusterState> = clusters
        .iter()
        .map(|(name, cluster)| (name.clone(), ClusterState::of(Some(cluster))))
        .collect();
    // 3. The Works tell which overrides were applied, and how the objects differ from the template.
    let overrides = overrides(client, binding).await;
    let quota = quota::shortage(client, binding).await;
    // 4. Only members in which replicas are missing are asked for pods.
    let members = match &template {
        Seen::Found(found) => members(client, binding, clusters, found).await,
        Seen::Absent | Seen::Hidden(_) => BTreeMap::new(),
    };
    let evidence = Evidence {
        workload: template::title(resource),
        template: template.map_ref(FoundTemplate::evidence),
        policies,
        binding: Some(binding),
        clusters: states,
        overrides,
        quota,
        members,
        now: Timestamp::now(),
    };
    finish(evidence)
}

/// Diagnoses a workload without a binding. Returns `None` if there is no such template, and no policy names it.
///
/// # Errors
/// When the control plane cannot be read.
pub async fn without_binding(
    client: &Client,
    query: &NameQuery,
) -> Result<Option<WorkloadDiagnosis>, ExplainError> {
    let Some(found) = template::find(client, query).await? else {
        return Ok(without_template(client, query).await);
    };
    let clusters = control_plane_lists::clusters(client).await?;
    let evidence = Evidence {
        workload: template::title(&found.reference),
        policies: policy_evidence(client, &found).await,
        template: Seen::Found(found.evidence()),
        binding: None,
        clusters: clusters
            .iter()
            .map(|(name, cluster)| (name.clone(), ClusterState::of(Some(cluster))))
            .collect(),
        overrides: Seen::Absent,
        quota: None,
        members: BTreeMap::new(),
        now: Timestamp::now(),
    };
    Ok(Some(finish(evidence)))
}

/// Diagnoses a workload that only a policy names.
async fn without_template(client: &Client, query: &NameQuery) -> Option<WorkloadDiagnosis> {
    let records = template::policies(client).await.ok()?;
    let (object, policy) = policies::naming(query, &records)?;
    let evidence = Evidence {
        workload: template::title(&object),
        template: Seen::Absent,
        policies: Seen::Found(PolicyEvidence {
            holds: Some(policy),
            ..PolicyEvidence::default()
        }),
        binding: None,
        clusters: BTreeMap::new(),
        overrides: Seen::Absent,
        quota: None,
        members: BTreeMap::new(),
        now: Timestamp::now(),
    };
    Some(finish(evidence))
}

fn finish(evidence: Evidence<'_>) -> WorkloadDiagnosis {
    WorkloadDiagnosis {
        diagnosis: evidence.diagnose(),
        workload: evidence.workload,
    }
}

async fn policy_evidence(client: &Client, found: &FoundTemplate) -> Seen<PolicyEvidence> {
    match template::policies(client).await {
        Ok(records) => Seen::Found(policies::evidence(&found.template, records)),
        Err(why) => Seen::Hidden(why),
    }
}

/// Returns the changes that override policies make.
async fn overrides(client: &Client, binding: &Binding) -> Seen<Vec<OverrideChanges>> {
    match works(client, binding).await {
        Ok(works) => Seen::Found(override_changes(client, binding, works).await),
        Err(error) => Seen::Hidden(error.to_string()),
    }
}

/// Looks at the members in which replicas are missing.
async fn members(
    client: &Client,
    binding: &Binding,
    clusters: &Clusters,
    found: &FoundTemplate,
) -> BTreeMap<String, Seen<MemberEvidence>> {
    let state = |name: &str| ClusterState::of(clusters.get(name).map(|cluster| &**cluster));
    let rows = CopyRow::of(binding, state);
    let is_missing =
        |row: &&CopyRow| !row.leaving && matches!(row.state, CopyState::Down | CopyState::Partly);
    let asked: Vec<(String, Arc<Cluster>)> = rows
        .iter()
        .filter(is_missing)
        .filter_map(|row| Some((row.cluster.clone(), Arc::clone(clusters.get(&row.cluster)?))))
        .take(MEMBERS)
        .collect();
    if asked.is_empty() {
        return BTreeMap::new();
    }
    let access = MemberAccess::find(client, client).await;
    let answers = asked
        .iter()
        .map(|(_, cluster)| member::evidence(&access, cluster, found));
    let answers = join_all(answers).await;
    asked
        .into_iter()
        .map(|(name, _)| name)
        .zip(answers)
        .collect()
}
