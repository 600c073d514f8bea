//! Explanations of the dashboard: the report of a decision with the present clusters.

use std::collections::BTreeMap;
use std::fmt;

use berth_api::Cluster;
use berth_apimachinery::api_error::api_error_message;
use berth_core::{Assumed, Engine, EngineOptions, WorkloadPeers};
use berth_dashboard::{BindingName, Explain};
use berth_explain::{Case, Limits, Report, Share, StoredCondition};
use berth_scheduler::binding::Binding;
use berth_scheduler::rules::condition::stored;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};

/// Decisions about changed fleets for a page: fewer than for the command, so that the page stays fast.
const DECISIONS: usize = 200;
/// Objects per page of a list.
const PAGE: u32 = 500;

/// Reads binding and clusters, and decides with the engine.
#[derive(Clone)]
pub(crate) struct Explainer {
    client: Client,
}

impl fmt::Debug for Explainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Explainer").finish_non_exhaustive()
    }
}

impl Explain for Explainer {
    fn explain(&self, binding: BindingName) -> BoxFuture<'_, Result<Report, String>> {
        async move {
            let found = self.binding(&binding).await;
            let found = found.map_err(|error| api_error_message(&error))?;
            let clusters = self.clusters().await;
            let clusters = clusters.map_err(|error| api_error_message(&error))?;
            let decided = tokio::task::spawn_blocking(move || decide(&found, &clusters));
            decided.await.map_err(|error| error.to_string())?
        }
        .boxed()
    }
}

impl Explainer {
    pub(crate) const fn new(client: Client) -> Self {
        Self { client }
    }

    async fn binding(&self, name: &BindingName) -> Result<Binding, kube::Error> {
        let client = self.client.clone();
        if let Some(namespace) = &name.namespace {
            let api = Api::<berth_api::ResourceBinding>::namespaced(client, namespace);
            api.get(&name.name).await.map(Binding::from)
        } else {
            let api = Api::<berth_api::ClusterResourceBinding>::all(client);
            api.get(&name.name).await.map(Binding::from)
        }
    }

    async fn clusters(&self) -> Result<BTreeMap<String, Cluster>, kube::Error> {
        let api = Api::<Cluster>::all(self.client.clone());
        let mut params = ListParams::default().limit(PAGE);
        let mut clusters = BTreeMap::new();
        loop {
            let page = api.list(&params).await?;
            let named = page.items.into_iter();
            clusters.extend(named.map(|cluster| (cluster.name_any(), cluster)));
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => params = params.continue_token(&token),
                _ => return Ok(clusters),
            }
        }
    }
}

fn decide(binding: &Binding, clusters: &BTreeMap<String, Cluster>) -> Result<Report, String> {
    let mut engine = Engine::new(EngineOptions::default()).map_err(|error| error.to_string())?;
    let assumed = Assumed::default();
    let case = Case {
        clusters,
        namespace: binding.key.namespace.as_deref(),
        name: &binding.key.name,
        metadata: &binding.metadata,
        spec: &binding.spec,
        status: &binding.status,
        peers: WorkloadPeers::default(),
        assumed: &assumed,
    };
    let limits = Limits {
        decisions: DECISIONS,
        ..Limits::default()
    };
    let report = berth_explain::explain(&mut engine, &case, &limits);
    let report = report.map_err(|error| error.to_string())?;
    let shares = binding.spec.clusters.iter().map(|target| Share {
        name: target.name.clone(),
        replicas: i64::from(target.replicas),
    });
    let condition = stored(&binding.status).map(|condition| StoredCondition {
        status: condition.status.clone(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
    });
    let affinity = binding.status.scheduler_observing_affinity_name.clone();
    let affinity = affinity.filter(|name| !name.is_empty());
    Ok(report.with_recorded(shares.collect(), affinity, condition))
}
