//! ClusterQueues: their watch events, the assignment of bindings to queues, and the reports about them in metrics, in
//! the status of each queue and at the debug endpoint.
//!
//! A leader writes the status of a queue at most once in [`REPORT_INTERVAL`], and only if it has changed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::cluster_queue::{ACTIVE, ClusterQueueStatus, QueueUsage};
use berth_api::quantity::{Quantity, QuantityText};
use berth_api::{Binding, BindingKey, ClusterQueue, condition};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;

use super::Scheduler;
use super::bindings::Bindings;
use super::cache::Cache;
use super::leadership::{Leading, Role};
use crate::debug_api::{API_VERSION, QueueList, QueuePosition, QueueSummary, ResourceUse};
use crate::metrics::QueueMetrics;
use crate::queue::{Queue, Tenant};
use crate::quota_book::QuotaBook;
use crate::watch::WatchEvent;
use crate::watch::list_progress::Source;

/// Minimum time between two writes of the status of a queue.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of namespaces in a list of queues.
const MAX_NAMESPACES: usize = 100;

/// The bindings of a queue.
#[derive(Clone, Copy, Debug, Default)]
struct QueueBindings {
    pending: usize,
    admitted: usize,
    /// The bindings that a limit refuses.
    held: usize,
    /// The time since which the first binding waits.
    oldest: Option<Timestamp>,
}

impl Scheduler {
    pub(super) fn handle_cluster_queue_event(&mut self, event: WatchEvent<ClusterQueue>) {
        let Some(quotas) = &mut self.cache.quotas else {
            return;
        };
        match event {
            WatchEvent::Applied(object) => match object.decode() {
                Ok(queue) => quotas.queue_applied(queue),
                Err(error) => {
                    let name = object.metadata().name.clone().unwrap_or_default();
                    tracing::warn!(
                        cluster_queue = name,
                        %error,
                        "cannot read a ClusterQueue; its last readable state is kept"
                    );
                }
            },
            WatchEvent::Deleted(metadata) => {
                quotas.queue_deleted(metadata.name.as_deref().unwrap_or_default());
            }
            WatchEvent::Listed(listing) => {
                quotas.retain_queues(|name| listing.contains("", name));
                self.cache.lists.complete(Source::ClusterQueues);
                self.report_readiness();
            }
        }
    }

    pub(super) fn handle_namespace_event(&mut self, event: WatchEvent<Namespace>) {
        let Some(quotas) = &mut self.cache.quotas else {
            return;
        };
        match event {
            WatchEvent::Applied(object) => {
                let name = object.metadata().name.clone().unwrap_or_default();
                match object.decode() {
                    Ok(namespace) => {
                        let labels = namespace.metadata.labels.unwrap_or_default();
                        quotas.namespace_applied(&name, labels);
                    }
                    Err(error) => {
                        tracing::warn!(namespace = name, %error, "cannot read a namespace");
                    }
                }
            }
            WatchEvent::Deleted(metadata) => {
                let deleted = metadata.name.unwrap_or_default();
                quotas.retain_namespaces(|name| name != deleted);
            }
            WatchEvent::Listed(listing) => {
                quotas.retain_namespaces(|name| listing.contains("", name));
                self.cache.lists.complete(Source::Namespaces);
                self.report_readiness();
            }
        }
    }

    /// Assigns the bindings to their queues after changes of queues, namespaces and bindings. Runs before the decisions
    /// of a turn.
    pub(super) fn refresh_cluster_queues(&mut self, leading: Option<&mut Leading>, now: Instant) {
        let Some(quotas) = &mut self.cache.quotas else {
            return;
        };
        let bindings = self.cache.bindings.iter();
        let are_changed = quotas.refresh_queues(bindings.map(|(_, binding)| &**binding));
        let moved = quotas.take_moved();
        let Some(leading) = leading else { return };
        if are_changed {
            leading.queue.set_queue_weights(weights(quotas));
            leading.queue_reports.due.get_or_insert(now);
        }
        for (key, queue) in moved {
            leading.queue.assign(&key, queue);
        }
    }

    /// Assigns all bindings to their queues in the queue of a new leader.
    pub(super) fn assign_all_to_queues(&self, queue: &mut Queue) {
        let Some(quotas) = &self.cache.quotas else {
            return;
        };
        queue.set_queue_weights(weights(quotas));
        for (key, name) in quotas.queue_members() {
            queue.assign(key, Some(Arc::clone(name)));
        }
    }

    /// Updates the metrics and the status of all queues, if a report is due.
    pub(super) fn report_cluster_queues(&self, leading: &mut Leading, now: Instant) {
        if leading.queue_reports.due.is_none_or(|due| due > now) {
            return;
        }
        let Some(quotas) = &self.cache.quotas else {
            leading.queue_reports.due = None;
            return;
        };
        let counts = queue_bindings(quotas, &self.cache.bindings);
        let time = jiff::Timestamp::now();
        let (mut metrics, mut outdated) = (Vec::new(), Vec::new());
        for (queue, usage) in quotas.queue_usages() {
            let name = queue.metadata.name.as_deref().unwrap_or_default();
            let state = counts.get(name).copied().unwrap_or_default();
            metrics.push(QueueMetrics {
                name: name.to_owned(),
                pending: state.pending,
                admitted: state.admitted,
                oldest_seconds: seconds_since(state.oldest, time),
                used: usage
                    .iter()
                    .map(|(resource, used, _)| {
                        let nominal = nominal(queue, resource);
                        ((*resource).to_owned(), used.ratio(nominal))
                    })
                    .collect(),
            });
            let present = status(queue, state, &usage, time);
            if queue.status.as_ref() != Some(&present) {
                outdated.push((name.to_owned(), present));
            }
        }
        leading.queue_reports.due = (!metrics.is_empty()).then(|| now + REPORT_INTERVAL);
        self.records.metrics.cluster_queues(metrics);
        let reports = &mut leading.queue_reports;
        let is_writing = reports
            .writing
            .as_ref()
            .is_some_and(|task| !task.is_finished());
        if !outdated.is_empty() && !is_writing {
            let writer = self.writer.clone();
            reports.writing = Some(tokio::spawn(async move {
                writer.write_queue_statuses(outdated).await;
            }));
        }
    }

    /// Returns the queues and the namespaces that take turns, and the position of a binding.
    pub(super) fn queue_list(&self, role: &Role, key: Option<&BindingKey>) -> QueueList {
        let queue = match role {
            Role::Standby => None,
            Role::Leading(leading) => Some(&leading.queue),
        };
        QueueList {
            api_version: API_VERSION.to_owned(),
            kind: "QueueList".to_owned(),
            leading: role.is_leading(),
            queues: summaries(&self.cache, queue, Instant::now()),
            position: key.zip(queue).and_then(|(key, queue)| position(queue, key)),
        }
    }
}

fn weights(quotas: &QuotaBook) -> BTreeMap<Arc<str>, u32> {
    let queues = quotas.queue_usages().map(|(queue, _)| queue);
    queues
        .map(|queue| {
            let name = queue.metadata.name.as_deref().unwrap_or_default();
            (name.into(), queue.spec.turn())
        })
        .collect()
}

/// Counts the bindings of each queue.
fn queue_bindings(quotas: &QuotaBook, bindings: &Bindings) -> HashMap<Arc<str>, QueueBindings> {
    let mut states: HashMap<Arc<str>, QueueBindings> = HashMap::new();
    for (key, queue) in quotas.queue_members() {
        let Some(binding) = bindings.get(key) else {
            continue;
        };
        if binding.deleting() || binding.spec.placement.is_none() {
            continue;
        }
        let state = states.entry(Arc::clone(queue)).or_default();
        let is_pending = binding.spec.clusters.is_empty();
        let is_held = quotas.waits(key);
        state.pending += usize::from(is_pending);
        state.admitted += usize::from(!is_pending);
        state.held += usize::from(is_held);
        if is_pending || is_held {
            let since = waits_since(binding);
            state.oldest = match (state.oldest, since) {
                (Some(oldest), Some(since)) => Some(oldest.min(since)),
                (oldest, since) => oldest.or(since),
            };
        }
    }
    states
}

/// Returns the time since which a binding waits: that of its condition, or that of its creation.
fn waits_since(binding: &Binding) -> Option<Timestamp> {
    let scheduled = condition::scheduled(&binding.status.conditions);
    let failed = scheduled.filter(|scheduled| scheduled.status != "True");
    let created = binding.metadata.creation_timestamp.as_ref();
    failed
        .map(|condition| condition.last_transition_time.0)
        .or_else(|| created.map(|created| created.0))
}

fn seconds_since(since: Option<Timestamp>, now: Timestamp) -> i64 {
    since.map_or(0, |since| {
        now.as_second().saturating_sub(since.as_second()).max(0)
    })
}

fn nominal(queue: &ClusterQueue, resource: &str) -> Quantity {
    let mut quotas = queue.spec.quotas.iter();
    let quota = quotas.find(|quota| quota.name == resource);
    quota
        .and_then(|quota| quota.nominal_quota.parse().ok())
        .unwrap_or_default()
}

/// Returns the status of a queue. The condition keeps its time while its status is the same.
fn status(
    queue: &ClusterQueue,
    state: QueueBindings,
    usage: &[(&str, Quantity, Quantity)],
    now: Timestamp,
) -> ClusterQueueStatus {
    let old = queue.status.as_ref();
    let mut conditions = old.map(|old| old.conditions.clone()).unwrap_or_default();
    let (active, reason, message) = if queue.spec.is_held() {
        (
            condition::Status::False,
            "Stopped",
            "the stopPolicy is Hold",
        )
    } else {
        (
            condition::Status::True,
            "Ready",
            "the queue admits bindings",
        )
    };
    let now = berth_apimachinery::timestamp::whole_seconds(now);
    condition::set(&mut conditions, ACTIVE, active, reason, message, now);
    let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let text = |amount: Quantity| QuantityText(amount.to_string());
    let usage = usage.iter().map(|(resource, total, borrowed)| QueueUsage {
        name: (*resource).to_owned(),
        total: text(*total),
        borrowed: text(*borrowed),
    });
    ClusterQueueStatus {
        pending_bindings: count(state.pending),
        admitted_bindings: count(state.admitted),
        usage: usage.collect(),
        conditions,
    }
}

/// Returns the ClusterQueues, and the namespaces with most ready bindings.
fn summaries(cache: &Cache, queue: Option<&Queue>, now: Instant) -> Vec<QueueSummary> {
    let mut ready: HashMap<&Tenant, (usize, Instant)> = HashMap::new();
    for (tenant, count, since) in queue.into_iter().flat_map(Queue::ready_by_tenant) {
        let (total, oldest) = ready.entry(tenant).or_insert((0, since));
        *total += count;
        *oldest = since.min(*oldest);
    }
    let mut summaries = Vec::new();
    if let Some(quotas) = &cache.quotas {
        let states = queue_bindings(quotas, &cache.bindings);
        let time = jiff::Timestamp::now();
        for (object, usage) in quotas.queue_usages() {
            let name = object.metadata.name.clone().unwrap_or_default();
            let state = states.get(&*name).copied().unwrap_or_default();
            let tenant = Tenant::ClusterQueue(name.as_str().into());
            let usage = usage.iter().map(|(resource, used, borrowed)| ResourceUse {
                name: (*resource).to_owned(),
                used: used.to_string(),
                nominal: nominal(object, resource).to_string(),
                borrowed: borrowed.to_string(),
            });
            summaries.push(QueueSummary {
                cluster_queue: Some(name),
                namespace: None,
                weight: object.spec.turn(),
                ready: ready.get(&tenant).map_or(0, |(count, _)| *count),
                held: state.held,
                pending: Some(state.pending),
                admitted: Some(state.admitted),
                oldest_seconds: seconds_since(state.oldest, time),
                cohort: object.spec.cohort_name.clone(),
                is_held: object.spec.is_held(),
                usage: usage.collect(),
            });
        }
    }
    let mut namespaces: Vec<(&Option<Arc<str>>, usize, Instant)> = ready
        .iter()
        .filter_map(|(tenant, (count, since))| match tenant {
            Tenant::Namespace(namespace) => Some((namespace, *count, *since)),
            Tenant::ClusterQueue(_) | Tenant::All => None,
        })
        .collect();
    namespaces.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    for (namespace, count, since) in namespaces.into_iter().take(MAX_NAMESPACES) {
        let tenant = Tenant::Namespace(namespace.clone());
        let age = now.saturating_duration_since(since).as_secs();
        summaries.push(QueueSummary {
            namespace: Some(namespace.as_deref().unwrap_or_default().to_owned()),
            weight: queue.map_or(1, |queue| queue.weight(&tenant)),
            ready: count,
            oldest_seconds: i64::try_from(age).unwrap_or(i64::MAX),
            ..QueueSummary::default()
        });
    }
    summaries
}

fn position(queue: &Queue, key: &BindingKey) -> Option<QueuePosition> {
    let (tenant, position) = queue.position(key)?;
    let (cluster_queue, namespace) = match tenant {
        Tenant::ClusterQueue(name) => (Some(name.to_string()), None),
        Tenant::Namespace(name) => (None, Some(name.as_deref().unwrap_or_default().to_owned())),
        Tenant::All => (None, None),
    };
    Some(QueuePosition {
        cluster_queue,
        namespace,
        place: position.place,
        of: position.of,
        tenants: position.tenants,
        before: position.before,
    })
}
