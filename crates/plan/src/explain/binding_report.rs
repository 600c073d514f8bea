//! The explainer of the dashboard. It computes the decision about a binding for the current clusters, and returns the
//! report that `berth explain` prints.

use std::fmt;

use berth_apimachinery::api_error::api_error_message;
use berth_core::{Assumed, Fleet, WorkloadPeers};
use berth_dashboard::{BindingName, Explain, Extent};
use berth_explain::{Case, Limits, Report};
use berth_scheduler::binding::Binding;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use kube::api::Api;

use crate::explain::with_stored_result;
use crate::scheduler_configuration::DecisionConfiguration;

/// Maximum number of decisions about changed fleets, per page. The maximum of `berth explain` is higher, but a page has
/// to be fast.
const MAX_DECISIONS: usize = 200;

/// An implementation of [`Explain`] that reads the binding from the control plane.
#[derive(Clone)]
pub(crate) struct Explainer {
    client: Client,
    configuration: DecisionConfiguration,
}

impl fmt::Debug for Explainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Explainer").finish_non_exhaustive()
    }
}

impl Explain for Explainer {
    fn explain(
        &self,
        fleet: Fleet,
        binding: BindingName,
        extent: Extent,
    ) -> BoxFuture<'_, Result<Report, String>> {
        async move {
            let found = self.binding(&binding).await;
            let found = found.map_err(|error| api_error_message(&error))?;
            let configuration = self.configuration.clone();
            let decided =
                tokio::task::spawn_blocking(move || decide(&found, &fleet, extent, &configuration));
            decided.await.map_err(|error| error.to_string())?
        }
        .boxed()
    }
}

impl Explainer {
    pub(crate) const fn new(client: Client, configuration: DecisionConfiguration) -> Self {
        Self {
            client,
            configuration,
        }
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
}

fn decide(
    binding: &Binding,
    fleet: &Fleet,
    extent: Extent,
    configuration: &DecisionConfiguration,
) -> Result<Report, String> {
    let engines = configuration.engines(Vec::new());
    let mut engines = engines.map_err(|error| error.to_string())?;
    let omitted = engines.omitted().to_vec();
    let Some(engine) = engines.of(binding) else {
        let (name, origin) = (binding.spec.scheduler(), configuration.origin());
        let origin = origin.unwrap_or("the configuration");
        return Err(format!("{origin} has no profile named {name}"));
    };
    let assumed = Assumed::default();
    let case = Case {
        fleet,
        namespace: binding.key.namespace.as_deref(),
        name: &binding.key.name,
        metadata: &binding.metadata,
        spec: &binding.spec,
        status: &binding.status,
        peers: WorkloadPeers::default(),
        assumed: &assumed,
    };
    let limits = match extent {
        Extent::DecisionAndChanges => Limits {
            decisions: MAX_DECISIONS,
            ..Limits::default()
        },
        Extent::Decision => Limits::none(),
    };
    let report = berth_explain::explain(engine, &case, &limits);
    let report = report.map_err(|error| error.to_string())?;
    let mut report = with_stored_result(report, binding);
    let omitted = omitted.into_iter();
    report
        .notes
        .extend(omitted.map(|part| format!("not recomputed: {part}")));
    Ok(report)
}
