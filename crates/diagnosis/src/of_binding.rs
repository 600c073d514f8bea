//! The diagnosis of a binding, from the binding and the state of its clusters alone: cheap enough for each row of a list.

use berth_api::well_known::{CONDITION_FULLY_APPLIED, CONDITION_HEALTHY};
use berth_api::{Binding, condition};
use jiff::{SignedDuration, Timestamp};

use crate::apply_failure::ApplyFailure;
use crate::copies::{ClusterState, CopyRow, CopyState};
use crate::diagnosis::{Diagnosis, StationReport};
use crate::finding::{Finding, Reason, Station};
use crate::health::Health;
use crate::pods;
use crate::{dispatch, healthy_condition, scheduling};

/// The time within which replicas may become ready after a placement without being a problem.
pub const STARTUP: SignedDuration = SignedDuration::from_mins(2);

/// The start of the general message of the condition `FullyApplied`. Any other message is that of a failed override.
const GENERAL_FAILURE: &str = "Failed to apply all works";

/// Diagnoses a binding.
pub fn of_binding(
    binding: &Binding,
    clusters: &dyn Fn(&str) -> ClusterState,
    now: Timestamp,
) -> Diagnosis {
    let known = known_problem(binding);
    diagnose(binding, clusters, &|_| None, known, now)
}

/// Diagnoses a binding with the problems of its pods, each with its message. The condition `Healthy` of the binding is
/// ignored, because these problems determine the next one.
pub fn of_binding_with(
    binding: &Binding,
    clusters: &dyn Fn(&str) -> ClusterState,
    problems: &dyn Fn(&str) -> Option<(Reason, String)>,
    now: Timestamp,
) -> Diagnosis {
    diagnose(binding, clusters, problems, None, now)
}

fn diagnose(
    binding: &Binding,
    clusters: &dyn Fn(&str) -> ClusterState,
    problem: &dyn Fn(&str) -> Option<(Reason, String)>,
    known: Option<(Reason, &str, Timestamp)>,
    now: Timestamp,
) -> Diagnosis {
    let subject = Subject {
        binding,
        problem,
        known,
        now,
    };
    let copies = subject.copies(clusters);
    let mut reports = subject.reports(&copies);
    if binding.deleting() {
        reports.push(StationReport::new(Station::Template, Health::Well, ""));
        reports.sort_by_key(|report| report.station);
    }
    Diagnosis::new(subject.findings(&copies), reports, copies)
}

/// Returns the later times at which a diagnosis may change without a change of the binding, in order.
pub(crate) fn later_changes(binding: &Binding, now: Timestamp) -> Vec<Timestamp> {
    let subject = Subject {
        binding,
        problem: &|_| None,
        known: None,
        now,
    };
    let limits = [
        (subject.created(), scheduling::DECISION),
        (subject.created(), STARTUP),
        (subject.started(), STARTUP),
    ];
    let times = limits
        .into_iter()
        .filter_map(|(time, limit)| time?.checked_add(limit).ok());
    let mut times: Vec<Timestamp> = times.filter(|time| *time > now).collect();
    times.sort_unstable();
    times
}

/// A binding with what is known about its clusters.
pub(crate) struct Subject<'a> {
    pub(crate) binding: &'a Binding,
    /// The problem of the pods in a cluster with its message, if it was looked for.
    pub(crate) problem: &'a dyn Fn(&str) -> Option<(Reason, String)>,
    /// The problem that the condition Healthy of the binding names.
    pub(crate) known: Option<(Reason, &'a str, Timestamp)>,
    pub(crate) now: Timestamp,
}

impl Subject<'_> {
    /// Returns the copies. A copy without a number of replicas that has a problem does not work, although no health rule
    /// reports it: a Job that has failed.
    pub(crate) fn copies(&self, clusters: impl Fn(&str) -> ClusterState) -> Vec<CopyRow> {
        let mut copies = CopyRow::of(self.binding, clusters);
        for copy in &mut copies {
            let may_have_ended = copy.state == CopyState::Well && copy.ready.is_none();
            if may_have_ended && self.has_problem(&copy.cluster) {
                copy.state = CopyState::Down;
            }
        }
        copies
    }

    fn has_problem(&self, cluster: &str) -> bool {
        let is_known = self
            .known
            .is_some_and(|(reason, message, _)| reason.is_about_pods() && names(message, cluster));
        is_known || (self.problem)(cluster).is_some()
    }

    /// Returns the findings at the stations that a binding shows.
    pub(crate) fn findings(&self, copies: &[CopyRow]) -> Vec<Finding> {
        let binding = self.binding;
        let mut found = Vec::new();
        if binding.deleting() {
            let message = "it is being deleted";
            let reason = Reason::TemplateDeleting;
            found.push(Finding::new(
                Station::Template,
                Health::Waiting,
                reason,
                message,
            ));
        }
        found.extend(scheduling::finding(binding, self.now));
        found.extend(dispatch::findings(binding));
        found.extend(override_failure(binding));
        let staying = copies.iter().filter(|copy| !copy.leaving);
        let works = staying.clone().any(|copy| copy.state.works());
        let bad = if works {
            Health::Degraded
        } else {
            Health::Broken
        };
        found.extend(staying.filter_map(|copy| self.of_copy(copy, bad)));
        found
    }

    fn of_copy(&self, copy: &CopyRow, bad: Health) -> Option<Finding> {
        let cluster = &copy.cluster;
        let finding = match copy.state {
            CopyState::Well => return None,
            CopyState::Partly | CopyState::Down => return Some(self.not_ready(copy, bad)),
            CopyState::NotApplied => {
                let message = copy.message.as_deref().unwrap_or_default();
                let class = ApplyFailure::of(message);
                let (words, message) = (class.in_words(), class.cause(message));
                let message = format!("{cluster} {words}: {message}");
                Finding::new(Station::Apply, Health::Stuck, class.reason(), message)
                    .with_fix(class.fix(cluster))
                    .since(self.applied_since())
            }
            CopyState::Pending => return Some(self.pending(cluster)),
            CopyState::Stale => {
                let what = match copy.wanted {
                    Some(1) => "its replica".to_owned(),
                    Some(wanted) => format!("its {wanted} replicas"),
                    None => "its copy".to_owned(),
                };
                let message = format!("{cluster} is not ready: nothing is known about {what}");
                Finding::new(Station::Status, bad, Reason::StaleStatus, message)
                    .with_fix(format!("look at `kubectl describe cluster {cluster}`; evictions move the workload if its policy allows"))
                    .since(copy.stale_since)
            }
            CopyState::ClusterMissing => {
                let message = format!("the cluster {cluster} does not exist any more");
                Finding::new(
                    Station::Apply,
                    Health::Waiting,
                    Reason::ClusterMissing,
                    message,
                )
            }
        };
        Some(finding.in_cluster(cluster))
    }

    fn not_ready(&self, copy: &CopyRow, bad: Health) -> Finding {
        let cluster = &copy.cluster;
        let resource = &self.binding.spec.resource;
        let kind = resource.kind.to_lowercase();
        let workload = format!("{kind}/{}", resource.name);
        let selector = match resource.namespace.as_deref() {
            Some(namespace) if !namespace.is_empty() => format!("-n {namespace}"),
            _ => String::new(),
        };
        let fix =
            |reason, message: &str| pods::fix((reason, message), &workload, &selector, cluster);
        let starts = self.is_starting();
        if let Some((reason, message)) = (self.problem)(cluster) {
            let health = match reason {
                Reason::Starting | Reason::NotReady if starts => Health::Waiting,
                _ => bad,
            };
            let fix = fix(reason, &message);
            return Finding::new(Station::Run, health, reason, message)
                .in_cluster(cluster)
                .with_fix(fix)
                .since(self.known.map(|(_, _, since)| since));
        }
        if let Some((reason, message, since)) = self.known
            && reason != Reason::NotReady
            && names(message, cluster)
        {
            return Finding::new(Station::Run, bad, reason, message)
                .in_cluster(cluster)
                .with_fix(fix(reason, message))
                .since(Some(since));
        }
        let message = match copy.wanted {
            Some(wanted) => {
                let ready = copy.ready.unwrap_or(0);
                format!("{ready} of {wanted} replicas are ready in {cluster}")
            }
            None => format!("{cluster} reports it as unhealthy"),
        };
        let health = if starts { Health::Waiting } else { bad };
        Finding::new(Station::Run, health, Reason::NotReady, message)
            .in_cluster(cluster)
            .with_fix(fix(Reason::NotReady, ""))
            .since(
                self.known
                    .map_or_else(|| self.started(), |(_, _, since)| Some(since)),
            )
    }

    fn pending(&self, cluster: &str) -> Finding {
        if dispatch::is_suspended(self.binding, cluster) {
            return dispatch::suspended_copy(cluster).since(self.started());
        }
        let message = format!("it is not applied in {cluster} yet");
        let (station, reason) = (Station::Apply, Reason::NotAppliedYet);
        let found = if self.is_starting() {
            Finding::new(station, Health::Waiting, reason, message)
        } else {
            Finding::new(station, Health::Stuck, reason, message).with_fix(
                "see whether the controllers run and reach the member: look at their log and at the Work",
            )
        };
        found.in_cluster(cluster).since(self.started())
    }

    /// Reports whether the last placement or application is so recent that replicas may still start.
    fn is_starting(&self) -> bool {
        let started = self.started().or_else(|| self.created());
        started.is_some_and(|started| self.now.duration_since(started) < STARTUP)
    }

    /// Returns the time of the last placement or complete application.
    fn started(&self) -> Option<Timestamp> {
        let status = &self.binding.status;
        let scheduled = status.last_scheduled_time.as_ref().map(|time| time.0);
        let applied = condition::find(&status.conditions, CONDITION_FULLY_APPLIED);
        let applied = applied.filter(|of| of.status == "True");
        scheduled.max(applied.map(|of| of.last_transition_time.0))
    }

    fn created(&self) -> Option<Timestamp> {
        let created = self.binding.metadata.creation_timestamp.as_ref();
        created.map(|time| time.0)
    }

    fn applied_since(&self) -> Option<Timestamp> {
        let conditions = &self.binding.status.conditions;
        let applied = condition::find(conditions, CONDITION_FULLY_APPLIED)?;
        Some(applied.last_transition_time.0)
    }

    /// Returns the report of each station if nothing is found there. A station that not all copies have reached waits.
    pub(crate) fn reports(&self, copies: &[CopyRow]) -> Vec<StationReport> {
        let binding = self.binding;
        let staying: Vec<&CopyRow> = copies.iter().filter(|copy| !copy.leaving).collect();
        let all = staying.len();
        let is_applied =
            |copy: &&&CopyRow| !matches!(copy.state, CopyState::Pending | CopyState::NotApplied);
        let applied = staying.iter().filter(is_applied).count();
        let works = staying.iter().filter(|copy| copy.state.works()).count();
        let reached = |count: usize| {
            if count == all && (all > 0 || binding.spec.replicas == 0) {
                Health::Well
            } else {
                Health::Waiting
            }
        };
        let dependency = match binding.spec.required_by.len() {
            0 => "",
            _ => ", where the workloads that need it are",
        };
        let new = StationReport::new;
        let scheduled = format!("{}{dependency}", scheduling::summary(binding));
        let still = "nothing is suspended, and nothing moves".to_owned();
        let mut reports = vec![
            new(Station::Scheduling, reached(all), scheduled),
            new(Station::Dispatch, Health::Well, still),
        ];
        if override_failure(binding).is_some() {
            reports.push(new(Station::Overrides, Health::Well, String::new()));
        }
        let (of_apply, of_run) = match (all, reached(all)) {
            (0, Health::Well) => (
                "nothing is to be applied".to_owned(),
                "nothing runs".to_owned(),
            ),
            (0, _) => (
                "it has no clusters yet".to_owned(),
                "it has no clusters yet".to_owned(),
            ),
            _ => (
                format!("applied in {applied} of {all} clusters"),
                format!("it works in {works} of {all} clusters"),
            ),
        };
        let of_status = match applied {
            0 => "nothing is reported yet",
            _ => "the reports of all clusters are current",
        };
        reports.push(new(Station::Apply, reached(applied), of_apply));
        reports.push(new(Station::Run, reached(works), of_run));
        reports.push(new(Station::Status, reached(applied), of_status.to_owned()));
        reports
    }
}

/// Returns the failure of an override policy, which the condition `FullyApplied` shows.
fn override_failure(binding: &Binding) -> Option<Finding> {
    let applied = condition::find(&binding.status.conditions, CONDITION_FULLY_APPLIED)?;
    let is_failure = applied.status == "False"
        && applied.reason == "FullyAppliedFailed"
        && !applied.message.starts_with(GENERAL_FAILURE);
    is_failure.then(|| {
        let message = format!("an override cannot be applied: {}", applied.message);
        Finding::new(
            Station::Overrides,
            Health::Stuck,
            Reason::OverrideFailed,
            message,
        )
        .with_fix("correct the override policy; the copies stay as they are until then")
        .since(Some(applied.last_transition_time.0))
    })
}

/// Returns the problem of a binding that its condition `Healthy` reports.
pub(crate) fn known_problem(binding: &Binding) -> Option<(Reason, &str, Timestamp)> {
    let healthy = condition::find(&binding.status.conditions, CONDITION_HEALTHY)?;
    let reason = Reason::parse(&healthy.reason).filter(|_| healthy.status == "False")?;
    let cause = healthy_condition::cause(&healthy.message);
    Some((reason, cause, healthy.last_transition_time.0))
}

/// Reports whether a message of a pod problem is about a cluster.
fn names(message: &str, cluster: &str) -> bool {
    let place = format!(" in {cluster}");
    let found = message.find(&place);
    found.is_some_and(|at| {
        let rest = &message[at + place.len()..];
        rest.is_empty() || rest.starts_with(':')
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use berth_api::ResourceBinding;
    use serde_json::{Value, json};

    use super::*;

    const PLACED: &str = "2026-05-01T10:00:00Z";

    /// Returns the binding of a Deployment with two replicas in each cluster.
    pub(crate) fn binding(clusters: Value, items: Value) -> Binding {
        let condition = |kind: &str| {
            json!({ "type": kind, "status": "True", "reason": "Success", "message": "",
                "lastTransitionTime": PLACED })
        };
        let binding: ResourceBinding = serde_json::from_value(json!({
            "metadata": { "name": "web-deployment", "namespace": "shop", "creationTimestamp": PLACED },
            "spec": {
                "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web" },
                "replicas": 2, "clusters": clusters, "placement": {},
            },
            "status": { "lastScheduledTime": PLACED, "aggregatedStatus": items,
                "conditions": [condition("Scheduled"), condition("FullyApplied")] },
        }))
        .unwrap();
        binding.into()
    }

    fn item(cluster: &str, ready: i64) -> Value {
        let health = if ready == 2 { "Healthy" } else { "Unhealthy" };
        json!({ "clusterName": cluster, "applied": true, "health": health,
            "status": { "replicas": 2, "readyReplicas": ready } })
    }

    fn in_clusters(items: &[Value]) -> Binding {
        let clusters: Vec<Value> = items
            .iter()
            .map(|item| json!({ "name": item["clusterName"], "replicas": 2 }))
            .collect();
        binding(json!(clusters), json!(items))
    }

    fn diagnose(binding: &Binding, seconds: i64) -> Diagnosis {
        let now: Timestamp = PLACED.parse().unwrap();
        let clusters = |name: &str| match name {
            "lost" => ClusterState::NotReady { since: None },
            _ => ClusterState::Ready,
        };
        of_binding(binding, &clusters, now + SignedDuration::from_secs(seconds))
    }

    #[test]
    fn the_verdict_names_the_worst_cause() {
        let refused = json!({ "clusterName": "m2", "appliedMessage": "no latest tags: admission webhook \"w\" denied the request" });
        for (about, items, seconds, expected) in [
            (
                "well",
                vec![item("m1", 2), item("m2", 2)],
                600,
                "well: 4 of 4 replicas are ready in 2 clusters",
            ),
            (
                "starts",
                vec![item("m1", 0)],
                30,
                "waiting: 0 of 2 replicas are ready in m1; placed and applied",
            ),
            (
                "broken",
                vec![item("m1", 0)],
                600,
                "broken: 0 of 2 replicas are ready in m1; placed and applied",
            ),
            (
                "degraded",
                vec![item("m1", 2), item("m2", 1)],
                600,
                "degraded: 1 of 2 replicas are ready in m2; placed and applied",
            ),
            (
                "refused",
                vec![item("m1", 2), refused],
                600,
                "stuck: m2 refuses the object: no latest tags: admission webhook \"w\" denied the request; placed",
            ),
            (
                "lost",
                vec![item("m1", 2), item("lost", 2)],
                600,
                "degraded: lost is not ready: nothing is known about its 2 replicas; placed and applied",
            ),
        ] {
            let found = diagnose(&in_clusters(&items), seconds);
            assert_eq!(
                format!("{}: {}", found.health, found.verdict),
                expected,
                "{about}"
            );
            assert_eq!(found.fix.is_some(), found.health != Health::Well, "{about}");
        }
    }

    #[test]
    fn the_condition_of_the_binding_tells_why_replicas_are_not_ready() {
        let mut binding = in_clusters(&[item("m1", 0)]);
        let condition = json!({ "type": "Healthy", "status": "False", "reason": "CrashLoopBackOff",
            "message": "2 of 2 pods crash in m1: exit code 1; fix: read the logs", "lastTransitionTime": PLACED });
        let condition = serde_json::from_value(condition).unwrap();
        binding.status.conditions.push(condition);
        let found = diagnose(&binding, 30);
        let expected = "2 of 2 pods crash in m1: exit code 1; placed and applied";
        assert_eq!((found.health, &*found.verdict), (Health::Broken, expected));
        assert_eq!(
            found.fix.as_deref(),
            Some("read the logs in m1: kubectl logs -n shop deployment/web --previous")
        );
        assert!(names("x in m1", "m1") && !names("x in m10: y", "m1"));
    }

    #[test]
    fn a_failed_job_is_broken_although_no_health_rule_reports_it() {
        let item = json!({ "clusterName": "m1", "applied": true, "health": "Healthy", "status": { "failed": 1 } });
        let binding = binding(json!([{ "name": "m1" }]), json!([item]));
        let clusters = |_: &str| ClusterState::Ready;
        let failed = (
            Reason::PodsFailed,
            "1 of 1 pods have failed in m1".to_owned(),
        );
        for (problem, expected) in [(None, Health::Well), (Some(failed), Health::Broken)] {
            let found = of_binding_with(&binding, &clusters, &|_| problem.clone(), Timestamp::MAX);
            assert_eq!(found.health, expected, "{}", found.verdict);
        }
    }

    #[test]
    fn given_problems_replace_what_the_condition_says() {
        let mut binding = in_clusters(&[item("m1", 0)]);
        let condition = json!({ "type": "Healthy", "status": "False", "reason": "CrashLoopBackOff",
            "message": "2 of 2 pods crash in m1: exit code 1", "lastTransitionTime": PLACED });
        let condition = serde_json::from_value(condition).unwrap();
        binding.status.conditions.push(condition);
        let pull = (
            Reason::ImagePullBackOff,
            "2 of 2 pods cannot pull".to_owned(),
        );
        for (problem, expected) in [
            (None, Reason::NotReady),
            (Some(pull), Reason::ImagePullBackOff),
        ] {
            let clusters = |_: &str| ClusterState::Ready;
            let found = of_binding_with(&binding, &clusters, &|_| problem.clone(), Timestamp::MAX);
            assert_eq!(found.reason, Some(expected));
        }
    }

    #[test]
    fn a_binding_without_a_decision_waits_and_then_is_stuck() {
        let mut binding = binding(json!([]), json!([]));
        binding.status = berth_api::binding::BindingStatus::default();
        assert_eq!(diagnose(&binding, 10).health, Health::Waiting);
        let found = diagnose(&binding, 60);
        assert_eq!(found.health, Health::Stuck);
        assert_eq!(
            found.verdict,
            "no scheduler named default-scheduler decides about it"
        );
    }

    #[test]
    fn a_dependency_waits_only_for_workloads_that_need_it() {
        for (required_by, health, verdict) in [
            (json!([]), Health::Well, "no workload needs it"),
            (
                json!([{ "namespace": "shop", "name": "web-deployment" }]),
                Health::Waiting,
                "no workload that needs it is placed",
            ),
        ] {
            let mut dependency = binding(json!([]), json!([]));
            dependency.spec.placement = None;
            dependency.spec.replicas = 0;
            dependency.spec.required_by = serde_json::from_value(required_by).unwrap();
            dependency.status = berth_api::binding::BindingStatus::default();
            let found = diagnose(&dependency, 600);
            assert_eq!((found.health, &*found.verdict), (health, verdict));
        }
    }

    #[test]
    fn replicas_in_a_lost_cluster_do_not_count() {
        let found = diagnose(&in_clusters(&[item("m1", 2), item("lost", 2)]), 600);
        assert_eq!(found.replicas(), Some((2, 4)));
    }
}
