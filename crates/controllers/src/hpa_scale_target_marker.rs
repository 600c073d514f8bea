//! The HPA scale target marker. It sets the label [`RETAIN_REPLICAS`] on the workloads that propagated
//! HorizontalPodAutoscalers scale, so that members keep the replicas of these workloads.
//!
//! The marker removes the label when the autoscaler is deleted or scales another workload. A label on a workload that
//! no autoscaler has scaled is kept, because a user may have set it.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::time::Duration;

use berth_api::well_known::{
    CLUSTER_PROPAGATION_POLICY_PERMANENT_ID, PROPAGATION_POLICY_PERMANENT_ID, RETAIN_REPLICAS,
};
use berth_apimachinery::api_error::{api_error_message, has_code, is_stale, is_unreachable};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::ResourceExt as _;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::monitor::Monitor;
use crate::reconciler::informer::WatchEvent;
use crate::reconciler::log_key::LogKey;
use crate::reconciler::observe::{ObjectName, Observe};
use crate::reconciler::work_queue::{Priority, RetryableError, Timers, WorkQueue};
use crate::reconciler::{ControllerError, Inputs, Reconciler, Runtime, Workers};
use crate::rest_mapper::{KindError, RestMapper};

/// The name of the controller's queue in metrics.
const QUEUE: &str = "hpa-scale-target-marker";
/// Maximum number of workloads written at the same time.
const WORKERS: usize = 4;
/// Delay before the next lookup of a workload that does not exist or whose kind is not served.
const MISSING_DELAY: Duration = Duration::from_secs(10);

/// Runs the controller until the token is cancelled.
///
/// # Errors
/// When one of its tasks panics.
pub async fn run(
    client: kube::Client,
    monitor: Monitor,
    shutdown: CancellationToken,
) -> Result<(), ControllerError> {
    let meter = monitor.queue(QUEUE);
    let mut runtime = Runtime::new(client.clone(), QUEUE, &monitor, &shutdown);
    let resource = ApiResource::erase::<HorizontalPodAutoscaler>(&());
    runtime.inputs().watch(&resource, |event| event);
    let marker = Marker {
        mapper: RestMapper::new(client),
        autoscalers: HashMap::new(),
        affected: BTreeSet::new(),
        queue: WorkQueue::default().metered(meter),
    };
    runtime
        .run("hpa scale target marker", marker, WORKERS)
        .await
}

/// A workload that an autoscaler scales.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Target {
    namespace: String,
    api_version: String,
    kind: String,
    name: String,
}

impl LogKey for Target {
    fn fmt_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

impl Target {
    fn of(autoscaler: &DynamicObject) -> Option<Self> {
        let target = autoscaler.data.pointer("/spec/scaleTargetRef")?;
        let field = |name: &str| target.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            namespace: autoscaler.namespace().unwrap_or_default(),
            api_version: field("apiVersion").unwrap_or_default(),
            kind: field("kind")?,
            name: field("name")?,
        })
    }
}

/// A HorizontalPodAutoscaler.
#[derive(Clone, Debug)]
struct Autoscaler {
    target: Target,
    /// True if a policy claims the autoscaler. The autoscaler then also exists in members.
    propagated: bool,
}

struct Marker {
    mapper: RestMapper,
    autoscalers: HashMap<ObjectName, Autoscaler>,
    /// The workloads whose label may have to change after an event.
    affected: BTreeSet<Target>,
    queue: WorkQueue<Target, ()>,
}

/// The result of labelling a workload.
#[derive(Debug, PartialEq, Eq)]
enum Marked {
    Done,
    Missing,
}

/// An error of labelling a workload.
#[derive(Debug, thiserror::Error)]
enum MarkError {
    #[error("{}", api_error_message(.0))]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Kind(#[from] KindError),
}

impl RetryableError for MarkError {
    fn is_stale(&self) -> bool {
        matches!(self, Self::Api(error) if is_stale(error))
    }

    fn is_outage(&self) -> bool {
        match self {
            Self::Api(error) => is_unreachable(error),
            Self::Kind(_) => false,
        }
    }
}

impl Reconciler for Marker {
    type Event = WatchEvent;
    type Outcome = (Target, Result<Marked, MarkError>);

    fn handle_event(&mut self, event: WatchEvent, _: &mut Inputs<WatchEvent>) {
        for target in self.affected_targets(event) {
            self.queue.push(target, (), Priority::High);
        }
    }

    fn handle_outcome(&mut self, (target, result): Self::Outcome, _: &mut Inputs<WatchEvent>) {
        match result {
            Ok(Marked::Missing) if self.is_scaled(&target) => {
                self.queue.finish(&target);
                self.queue.push_at(target, Instant::now() + MISSING_DELAY);
            }
            Ok(_) => self.queue.finish(&target),
            Err(error) => self.queue.retry(&target, (), &error),
        }
    }

    fn timers(&mut self) -> Option<&mut dyn Timers> {
        Some(&mut self.queue)
    }

    fn dispatch(&mut self, workers: &mut Workers<Self::Outcome>) {
        while workers.has_free() {
            let Some((target, ())) = self.queue.next() else {
                return;
            };
            let label = self.is_scaled(&target).then_some("true");
            let mapper = self.mapper.clone();
            self.queue.start(target.clone());
            workers.start(async move {
                let result = set_label(&mapper, &target, label).await;
                (target, result)
            });
        }
    }
}

impl Marker {
    /// Reports whether a propagated autoscaler scales the workload.
    fn is_scaled(&self, target: &Target) -> bool {
        let mut autoscalers = self.autoscalers.values();
        autoscalers.any(|autoscaler| autoscaler.propagated && autoscaler.target == *target)
    }

    /// Applies a watch event. Returns the workloads whose label may have to change.
    fn affected_targets(&mut self, event: WatchEvent) -> BTreeSet<Target> {
        self.observe(&(), event);
        std::mem::take(&mut self.affected)
    }
}

impl Observe for Marker {
    type Source = ();

    fn applied(&mut self, (): &(), object: DynamicObject) {
        let Some(target) = Target::of(&object) else {
            return;
        };
        let labels = object.labels();
        let propagated = [
            PROPAGATION_POLICY_PERMANENT_ID,
            CLUSTER_PROPAGATION_POLICY_PERMANENT_ID,
        ]
        .iter()
        .any(|label| labels.contains_key(*label));
        let autoscaler = Autoscaler {
            target: target.clone(),
            propagated,
        };
        let key = (object.namespace().unwrap_or_default(), object.name_any());
        let before = self.autoscalers.insert(key, autoscaler);
        let former = before
            .map(|before| before.target)
            .filter(|former| *former != target);
        self.affected.extend(former);
        self.affected.extend(propagated.then_some(target));
    }

    fn removed(&mut self, (): &(), namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        let removed = self.autoscalers.remove(&key);
        self.affected
            .extend(removed.map(|autoscaler| autoscaler.target));
    }

    fn names(&self, (): &()) -> Vec<ObjectName> {
        self.autoscalers.keys().cloned().collect()
    }
}

/// Sets the label [`RETAIN_REPLICAS`] of a workload, or removes it. Writes nothing if the label is up to date.
async fn set_label(
    mapper: &RestMapper,
    target: &Target,
    value: Option<&str>,
) -> Result<Marked, MarkError> {
    let found = mapper
        .api(&target.api_version, &target.kind, &target.namespace)
        .await;
    let api = match found {
        Ok(api) => api,
        Err(error) if error.is_unserved() => return Ok(Marked::Missing),
        Err(error) => return Err(error.into()),
    };
    let Some(workload) = api.get_metadata_opt(&target.name).await? else {
        return Ok(Marked::Missing);
    };
    if workload.labels().get(RETAIN_REPLICAS).map(String::as_str) == value {
        return Ok(Marked::Done);
    }
    let patch = json!({ "metadata": { "labels": { RETAIN_REPLICAS: value } } });
    let params = PatchParams::default();
    match api
        .patch_metadata(&target.name, &params, &Patch::Merge(patch))
        .await
    {
        Ok(_) => Ok(Marked::Done),
        Err(error) if has_code(&error, 404) => Ok(Marked::Missing),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use berth_component_base::list_watch::Listing;

    use super::*;

    fn marker() -> Marker {
        let url = "http://localhost:1".parse().unwrap();
        let client = kube::Client::try_from(kube::Config::new(url)).unwrap();
        Marker {
            mapper: RestMapper::new(client),
            autoscalers: HashMap::new(),
            affected: BTreeSet::new(),
            queue: WorkQueue::default(),
        }
    }

    fn autoscaler(name: &str, target: &str, propagated: bool) -> DynamicObject {
        let labels = if propagated {
            json!({ PROPAGATION_POLICY_PERMANENT_ID: "p" })
        } else {
            json!({})
        };
        serde_json::from_value(json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": { "namespace": "default", "name": name, "labels": labels },
            "spec": { "scaleTargetRef": {
                "apiVersion": "apps/v1", "kind": "Deployment", "name": target } },
        }))
        .unwrap()
    }

    /// Handles an event. Returns the affected workloads, each with a flag that is true if the workload must have the
    /// label.
    fn handle(marker: &mut Marker, event: WatchEvent) -> Vec<(String, bool)> {
        let targets = marker.affected_targets(event).into_iter();
        let scaled: Vec<(Target, bool)> = targets
            .map(|target| (target.clone(), marker.is_scaled(&target)))
            .collect();
        let scaled = scaled.into_iter();
        scaled.map(|(target, marks)| (target.name, marks)).collect()
    }

    fn applied(object: &DynamicObject) -> WatchEvent {
        WatchEvent::Applied(Box::new(object.clone()))
    }

    #[tokio::test]
    async fn workloads_of_propagated_autoscalers_are_labelled() {
        let mut marker = marker();
        let unpropagated = autoscaler("a", "web", false);
        assert_eq!(handle(&mut marker, applied(&unpropagated)), []);
        let propagated = autoscaler("a", "web", true);
        let web = |marks| ("web".to_owned(), marks);
        assert_eq!(handle(&mut marker, applied(&propagated)), [web(true)]);
        let moved = autoscaler("a", "shop", true);
        let shop = |marks| ("shop".to_owned(), marks);
        assert_eq!(
            handle(&mut marker, applied(&moved)),
            [shop(true), web(false)]
        );
        let deleted = WatchEvent::Deleted(Box::new(moved));
        assert_eq!(handle(&mut marker, deleted), [shop(false)]);
    }

    #[tokio::test]
    async fn a_workload_keeps_its_label_while_another_autoscaler_scales_it() {
        let mut marker = marker();
        let (a, b) = (autoscaler("a", "web", true), autoscaler("b", "web", true));
        handle(&mut marker, applied(&a));
        handle(&mut marker, applied(&b));
        let web = |marks| [("web".to_owned(), marks)];
        let listing = WatchEvent::Listed(Listing::from_iter([&b]));
        assert_eq!(handle(&mut marker, listing), web(true));
        let listing = WatchEvent::Listed(Listing::default());
        assert_eq!(handle(&mut marker, listing), web(false));
    }
}
