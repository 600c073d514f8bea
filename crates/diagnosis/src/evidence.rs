//! The evidence about one workload, from requests that a list of bindings does not need: its template, the policies, the
//! overrides and the pods.

use std::collections::BTreeMap;

use berth_api::Binding;
use jiff::{SignedDuration, Timestamp};

use crate::copies::ClusterState;
use crate::diagnosis::{Diagnosis, StationReport};
use crate::finding::{Finding, Reason, Station};
use crate::health::Health;
use crate::of_binding::{Subject, known_problem};
use crate::override_changes::{self, OverrideChanges};
use crate::pods::PodProblem;
use crate::quota_shortage::QuotaShortage;

/// The time after which a missing binding means that no detector looks at the template.
const DETECTION: SignedDuration = SignedDuration::from_secs(30);

/// Something that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen<T> {
    /// It was found.
    Found(T),
    /// It does not exist.
    Absent,
    /// It could not be read, for this reason.
    Hidden(String),
}

impl<T> Seen<T> {
    /// Returns the same with what `f` makes of it.
    pub fn map_ref<U>(&self, f: impl FnOnce(&T) -> U) -> Seen<U> {
        match self {
            Self::Found(found) => Seen::Found(f(found)),
            Self::Absent => Seen::Absent,
            Self::Hidden(why) => Seen::Hidden(why.clone()),
        }
    }
}

/// The template of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateEvidence {
    /// The creation time.
    pub created: Option<Timestamp>,
    /// True if the template is being deleted.
    pub is_deleting: bool,
    /// The finalizers.
    pub finalizers: Vec<String>,
    /// The ready replicas in the status of the template.
    pub ready: Option<i64>,
}

/// The policies of the control plane, as seen from one template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyEvidence {
    /// The policy that holds the template, with its kind.
    pub holds: Option<String>,
    /// Other policies that select the template, each with the reason why it does not hold it.
    pub others: Vec<String>,
    /// Policies that nearly select the template.
    pub near: Vec<NearPolicy>,
}

/// A policy that nearly selects a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearPolicy {
    /// The kind and name of the policy.
    pub policy: String,
    /// The difference, in words.
    pub difference: String,
    /// The change of the policy that makes it select the template.
    pub fix: String,
}

/// The objects of a workload in one member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberEvidence {
    /// The worst problem of the pods.
    pub problem: Option<PodProblem>,
    /// The newest warnings about the object and its pods, the newest first.
    pub warnings: Vec<String>,
}

/// All that is known about one workload.
#[derive(Clone, Debug)]
pub struct Evidence<'a> {
    /// The kind and name of the workload, such as `Deployment shop/web`.
    pub workload: String,
    /// The template.
    pub template: Seen<TemplateEvidence>,
    /// The policies, or the reason why they could not be read.
    pub policies: Seen<PolicyEvidence>,
    /// The binding.
    pub binding: Option<&'a Binding>,
    /// The states of all clusters.
    pub clusters: BTreeMap<String, ClusterState>,
    /// The changes that override policies make, from the Works.
    pub overrides: Seen<Vec<OverrideChanges>>,
    /// The shortage of the quota that refuses the binding, if a quota does.
    pub quota: Option<QuotaShortage>,
    /// The objects in the members that were looked at.
    pub members: BTreeMap<String, Seen<MemberEvidence>>,
    /// The present time.
    pub now: Timestamp,
}

impl Evidence<'_> {
    /// Diagnoses the workload.
    pub fn diagnose(&self) -> Diagnosis {
        let mut findings: Vec<Finding> = self.template_finding().into_iter().collect();
        findings.extend(self.policy_finding());
        let new = |station, summary| StationReport::new(station, Health::Well, summary);
        let mut reports = vec![
            new(Station::Template, self.template_summary()),
            new(Station::Policy, self.policy_summary()),
        ];
        let Some(binding) = self.binding else {
            return Diagnosis::new(findings, reports, Vec::new());
        };
        let problem = |cluster: &str| match self.members.get(cluster) {
            Some(Seen::Found(member)) => {
                let problem = member.problem.as_ref()?;
                Some((problem.reason, problem.in_cluster(cluster)))
            }
            _ => None,
        };
        let subject = Subject {
            binding,
            problem: &problem,
            known: known_problem(binding),
            now: self.now,
        };
        let copies = subject.copies(|name| {
            let state = self.clusters.get(name).cloned();
            state.unwrap_or(ClusterState::Missing)
        });
        let found = subject.findings(&copies).into_iter();
        findings.extend(found.map(|found| {
            let found = self.with_override_fix(found);
            match &self.quota {
                Some(shortage) => found.with_quota(shortage),
                None => found,
            }
        }));
        let mut of_binding = subject.reports(&copies);
        self.complete(&mut of_binding);
        reports.extend(of_binding);
        reports.sort_by_key(|report| report.station);
        let warnings = self
            .members
            .iter()
            .filter_map(|(cluster, seen)| match seen {
                Seen::Found(member) if !member.warnings.is_empty() => {
                    Some((cluster.clone(), member.warnings.clone()))
                }
                _ => None,
            });
        let overrides = match &self.overrides {
            Seen::Found(changes) => changes.clone(),
            Seen::Absent | Seen::Hidden(_) => Vec::new(),
        };
        Diagnosis {
            overrides,
            warnings: warnings.collect(),
            ..Diagnosis::new(findings, reports, copies)
        }
    }

    /// Replaces the next action of a finding about an image that an override policy has changed.
    fn with_override_fix(&self, finding: Finding) -> Finding {
        let (Seen::Found(overrides), Some(cluster)) = (&self.overrides, &finding.cluster) else {
            return finding;
        };
        let mut of_cluster = overrides
            .iter()
            .filter(|changes| changes.clusters.contains(cluster));
        let found = of_cluster.find_map(|changes| {
            let mut fields = changes.fields.iter().flatten();
            let image = fields.find(|change| change.field.rsplit('.').next() == Some("image"))?;
            let new = image.new.as_ref()?.as_str()?;
            // Another container may be the one whose image cannot be pulled.
            let is_pulled = finding.message.contains(new);
            is_pulled.then(|| (changes.policies.join(" or "), new))
        });
        match found {
            Some((policies, image)) if finding.reason == Reason::ImagePullBackOff => {
                let fix = format!(
                    "correct {policies}, which sets the image {image} for {cluster}, or give {cluster} access to its registry (imagePullSecrets)"
                );
                finding.with_fix(fix)
            }
            _ => finding,
        }
    }

    fn template_finding(&self) -> Option<Finding> {
        let new = Finding::new;
        match &self.template {
            Seen::Found(template) if template.is_deleting => {
                let message = match &template.finalizers[..] {
                    [] => "the template is being deleted".to_owned(),
                    names => format!(
                        "the template is being deleted, and waits for the finalizers {}",
                        names.join(", ")
                    ),
                };
                let reason = Reason::TemplateDeleting;
                let found = new(Station::Template, Health::Waiting, reason, message);
                Some(found.with_fix("end what the finalizers wait for"))
            }
            Seen::Found(_) | Seen::Hidden(_) => None,
            Seen::Absent => {
                let mut message = "the template does not exist".to_owned();
                if self.binding.is_none()
                    && let Seen::Found(PolicyEvidence {
                        holds: Some(policy),
                        ..
                    }) = &self.policies
                {
                    message = format!("{message}; {policy} names it");
                }
                let reason = Reason::TemplateMissing;
                let found = new(Station::Template, Health::Stuck, reason, message);
                Some(found.with_fix("apply the manifest of the workload to the control plane"))
            }
        }
    }

    fn template_summary(&self) -> String {
        match &self.template {
            Seen::Found(_) => format!("{} exists", self.workload),
            Seen::Absent => String::new(),
            Seen::Hidden(why) => format!("not visible: {why}"),
        }
    }

    fn policy_finding(&self) -> Option<Finding> {
        let is_leaving = match &self.template {
            Seen::Found(template) => template.is_deleting,
            Seen::Absent => true,
            Seen::Hidden(_) => false,
        };
        if self.binding.is_some() || is_leaving {
            return None;
        }
        let Seen::Found(policies) = &self.policies else {
            return None;
        };
        let created = match &self.template {
            Seen::Found(template) => template.created,
            _ => None,
        };
        let new = |health, reason, message: String| {
            Finding::new(Station::Policy, health, reason, message).since(created)
        };
        if let Some(policy) = &policies.holds {
            let is_new = created.is_none_or(|time| self.now.duration_since(time) < DETECTION);
            let health = if is_new {
                Health::Waiting
            } else {
                Health::Stuck
            };
            let message = format!("{policy} selects it, and there is no binding yet");
            let found = new(health, Reason::NoBinding, message);
            return Some(found.with_fix(
                "see whether the detector runs (berth controllers), and look at the events of the template",
            ));
        }
        let mut message = "no policy selects it".to_owned();
        let mut fix = "create a PropagationPolicy whose resourceSelectors name it".to_owned();
        if let Some(near) = policies.near.first() {
            message = format!(
                "{message}; {} nearly does: {}",
                near.policy, near.difference
            );
            fix.clone_from(&near.fix);
        }
        Some(new(Health::Stuck, Reason::NoPolicy, message).with_fix(fix))
    }

    fn policy_summary(&self) -> String {
        let policies = match &self.policies {
            Seen::Found(policies) => policies,
            Seen::Absent => return "it follows the workloads that need it".to_owned(),
            Seen::Hidden(why) => return format!("not visible: {why}"),
        };
        let mut text = match &policies.holds {
            Some(policy) if self.template == Seen::Absent && self.binding.is_none() => {
                format!("{policy} names it")
            }
            Some(policy) => format!("{policy} selects it"),
            None => "no policy selects it".to_owned(),
        };
        for other in &policies.others {
            text.push_str("; ");
            text.push_str(other);
        }
        text
    }

    /// Returns the changes by override policies in one sentence, or `None` if there are none.
    fn override_summary(&self) -> Option<String> {
        match &self.overrides {
            Seen::Found(changes) => override_changes::summary(changes),
            Seen::Absent => None,
            Seen::Hidden(why) => Some(format!("not visible: {why}")),
        }
    }

    /// Adds to the reports what only this evidence shows.
    fn complete(&self, reports: &mut Vec<StationReport>) {
        if let Some(summary) = self.override_summary() {
            // The finding about a failed override replaces the sentence, not the station.
            reports.retain(|report| report.station != Station::Overrides);
            reports.push(StationReport::new(
                Station::Overrides,
                Health::Well,
                summary,
            ));
        }
        let hidden = self
            .members
            .iter()
            .filter_map(|(cluster, seen)| match seen {
                Seen::Hidden(why) => Some(format!("; {cluster} is not visible: {why}")),
                _ => None,
            });
        let hidden: String = hidden.collect();
        let ready = match &self.template {
            Seen::Found(TemplateEvidence {
                ready: Some(ready), ..
            }) => match ready {
                1 => "; the template shows 1 ready replica".to_owned(),
                ready => format!("; the template shows {ready} ready replicas"),
            },
            _ => String::new(),
        };
        for report in reports {
            match report.station {
                Station::Run => report.summary.push_str(&hidden),
                Station::Status => report.summary.push_str(&ready),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::of_binding::tests::binding;

    fn evidence(binding: Option<&Binding>, policies: PolicyEvidence) -> Evidence<'_> {
        Evidence {
            workload: "Deployment shop/web".to_owned(),
            template: Seen::Found(TemplateEvidence::default()),
            policies: Seen::Found(policies),
            binding,
            clusters: BTreeMap::from([("m1".to_owned(), ClusterState::Ready)]),
            overrides: Seen::Absent,
            quota: None,
            members: BTreeMap::new(),
            now: "2026-05-01T11:00:00Z".parse().unwrap(),
        }
    }

    #[test]
    fn a_template_without_a_policy_names_the_policy_that_nearly_selects_it() {
        let near = NearPolicy {
            policy: "PropagationPolicy shop/lonely".to_owned(),
            difference: "it names \"lonly\"".to_owned(),
            fix: "set resourceSelectors[0].name to \"web\"".to_owned(),
        };
        for (policies, verdict, fix) in [
            (
                PolicyEvidence::default(),
                "no policy selects it",
                "create a PropagationPolicy whose resourceSelectors name it",
            ),
            (
                PolicyEvidence {
                    near: vec![near],
                    ..PolicyEvidence::default()
                },
                "no policy selects it; PropagationPolicy shop/lonely nearly does: it names \"lonly\"",
                "set resourceSelectors[0].name to \"web\"",
            ),
        ] {
            let found = evidence(None, policies).diagnose();
            assert_eq!(found.health, Health::Stuck);
            assert_eq!(
                (&*found.verdict, found.fix.as_deref()),
                (verdict, Some(fix))
            );
        }
    }

    #[test]
    fn a_template_that_only_a_policy_names_is_missing() {
        let policies = PolicyEvidence {
            holds: Some("PropagationPolicy shop/web".to_owned()),
            ..PolicyEvidence::default()
        };
        let evidence = Evidence {
            template: Seen::Absent,
            ..evidence(None, policies)
        };
        let found = evidence.diagnose();
        assert_eq!(
            (found.health, &*found.verdict),
            (
                Health::Stuck,
                "the template does not exist; PropagationPolicy shop/web names it"
            )
        );
    }

    #[test]
    fn overrides_are_named_and_shown() {
        let binding = binding(json!([{ "name": "m1", "replicas": 2 }]), json!([]));
        let changes = OverrideChanges {
            clusters: vec!["m1".to_owned()],
            policies: vec!["OverridePolicy web".to_owned()],
            fields: Some(Vec::new()),
        };
        for (overrides, expected) in [
            (
                Seen::Found(vec![changes]),
                Some("OverridePolicy web in m1, without a change"),
            ),
            (Seen::Found(Vec::new()), None),
            (
                Seen::Hidden("no rights".to_owned()),
                Some("not visible: no rights"),
            ),
        ] {
            let evidence = Evidence {
                overrides,
                ..evidence(Some(&binding), PolicyEvidence::default())
            };
            let found = evidence.diagnose();
            let mut stations = found.stations.iter();
            let station = stations.find(|report| report.station == Station::Overrides);
            assert_eq!(station.map(|report| &*report.summary), expected);
        }
    }

    #[test]
    fn an_image_that_an_override_has_changed_is_corrected_in_the_override() {
        let items = json!([{ "clusterName": "m1", "applied": true, "health": "Unhealthy",
            "status": { "replicas": 2, "readyReplicas": 0 } }]);
        let binding = binding(json!([{ "name": "m1", "replicas": 2 }]), items);
        let problem = |reason| {
            let problem = PodProblem {
                reason,
                pods: 2,
                total: 2,
                detail: "mirror/shop:v2".to_owned(),
            };
            let member = MemberEvidence {
                problem: Some(problem),
                warnings: Vec::new(),
            };
            BTreeMap::from([("m1".to_owned(), Seen::Found(member))])
        };
        let changes = |cluster: &str| {
            let change = json!({ "clusters": [cluster], "policies": ["OverridePolicy web"],
                "fields": [{ "field": "spec.template.spec.containers[0].image", "old": "shop:v2", "new": "mirror/shop:v2" }] });
            Seen::Found(vec![serde_json::from_value(change).unwrap()])
        };
        for (reason, overrides, expected) in [
            (Reason::ImagePullBackOff, changes("m1"), true),
            (Reason::ImagePullBackOff, changes("m2"), false),
            (Reason::CrashLoopBackOff, changes("m1"), false),
        ] {
            let evidence = Evidence {
                members: problem(reason),
                overrides,
                ..evidence(Some(&binding), PolicyEvidence::default())
            };
            let fix = evidence.diagnose().fix.unwrap();
            let is_of_override = fix.starts_with(
                "correct OverridePolicy web, which sets the image mirror/shop:v2 for m1",
            );
            assert_eq!(is_of_override, expected, "{fix}");
        }
    }

    #[test]
    fn pods_tell_more_than_the_binding() {
        let items = json!([{ "clusterName": "m1", "applied": true, "health": "Unhealthy",
            "status": { "replicas": 2, "readyReplicas": 0 } }]);
        let binding = binding(json!([{ "name": "m1", "replicas": 2 }]), items);
        let mut evidence = evidence(Some(&binding), PolicyEvidence::default());
        let problem = PodProblem {
            reason: Reason::ImagePullBackOff,
            pods: 2,
            total: 2,
            detail: "shop:v2".to_owned(),
        };
        let member = MemberEvidence {
            problem: Some(problem),
            warnings: Vec::new(),
        };
        evidence
            .members
            .insert("m1".to_owned(), Seen::Found(member));
        let found = evidence.diagnose();
        assert_eq!(
            found.verdict,
            "2 of 2 pods cannot pull their image in m1: shop:v2; placed and applied"
        );
        let stations: Vec<Station> = found.stations.iter().map(|of| of.station).collect();
        assert!(stations.is_sorted() && stations.len() >= 6, "{stations:?}");
    }
}
