//! Broken workloads, at least two at each station of their way from the template to the members. For each, the cause and the
//! next action must be in the first lines of `berth explain`, and the cause in the list of the dashboard and in a condition
//! of the binding.

use std::fmt::Write as _;

use berth_test_requirements::needs;

use crate::dashboard::Page;
use crate::program::{Up, berth, until};

/// A broken workload in a namespace of its own.
struct Situation {
    /// The namespace, which is also the title.
    name: &'static str,
    /// Changes of the manifest of the workload and its policy: texts and their replacements.
    changes: &'static [(&'static str, &'static str)],
    /// Further manifests, with NS in place of the namespace.
    more: &'static str,
    /// The start of the verdict, after the name of the workload.
    verdict: &'static str,
    /// A part of the next action.
    fix: &'static str,
    /// A part of a condition of the binding. Empty if there is no binding.
    condition: &'static str,
}

const DEFAULT: Situation = Situation {
    name: "",
    changes: &[],
    more: "",
    verdict: "",
    fix: "",
    condition: "",
};

/// A Deployment for member1 and its policy.
const WEB: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: NS}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: NS}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement:
    clusterAffinity: {clusterNames: [member1]}
    replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: NS, labels: {app: web}, annotations: {simulation.berth/start-delay: 0s}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: shop, resources: {requests: {cpu: 100m}}}]
";

const WIDGET: &str = "
---
apiVersion: example.io/v1
kind: Widget
metadata: {name: web, namespace: NS}
spec: {size: 2}
";

const SITUATIONS: &[Situation] = &[
    // The template.
    Situation {
        name: "template-deleting",
        changes: &[("metadata: {name: web, namespace: NS, labels", "metadata: {name: web, finalizers: [example.io/wait], namespace: NS, labels")],
        verdict: "waiting: the template is being deleted, and waits for the finalizers example.io/wait",
        fix: "end what the finalizers wait for",
        ..DEFAULT
    },
    Situation {
        name: "template-missing",
        changes: &[("metadata: {name: web, namespace: NS, labels", "metadata: {name: other, namespace: NS, labels")],
        verdict: "stuck: the template does not exist; PropagationPolicy template-missing/web names it",
        fix: "apply the manifest of the workload to the control plane",
        ..DEFAULT
    },
    // The policy.
    Situation {
        name: "policy-typo",
        changes: &[("kind: Deployment, name: web}]", "kind: Deployment, name: wbe}]")],
        verdict: "stuck: no policy selects it; PropagationPolicy policy-typo/web nearly does: it names \"wbe\"",
        fix: "set name: web in the resourceSelectors of PropagationPolicy policy-typo/web",
        ..DEFAULT
    },
    Situation {
        name: "policy-labels",
        changes: &[("kind: Deployment, name: web}]", "kind: Deployment, labelSelector: {matchLabels: {app: shop}}}]")],
        verdict: "stuck: no policy selects it; PropagationPolicy policy-labels/web nearly does: it selects Deployment by labels, and its labels are app=web",
        fix: "set the labels that PropagationPolicy policy-labels/web selects",
        ..DEFAULT
    },
    // The decision.
    Situation {
        name: "scheduling-affinity",
        changes: &[("clusterNames: [member1]", "clusterNames: [member9]")],
        verdict: "stuck: 0/3 clusters are available: 3 cluster(s) did not match the placement cluster affinity constraint",
        fix: "add member",
        condition: "0/3 clusters are available",
        ..DEFAULT
    },
    Situation {
        name: "scheduling-capacity",
        changes: &[("cpu: 100m", "cpu: 4000")],
        verdict: "stuck: ",
        fix: "make room for 2 replicas on the nodes of member1, which have room for 0",
        condition: "Clusters available replicas 0 are not enough to schedule",
        ..DEFAULT
    },
    Situation {
        name: "scheduling-no-node",
        changes: &[("      containers", "      nodeSelector: {disk: ssd}\n      containers")],
        verdict: "stuck: ",
        fix: "make room for 2 replicas on the nodes of member1, which have room for 0",
        condition: "Clusters available replicas 0 are not enough to schedule",
        ..DEFAULT
    },
    Situation {
        name: "scheduling-quota",
        changes: &[("metadata: {name: NS}\n---", "metadata: {name: NS}\n---\napiVersion: policy.karmada.io/v1alpha1\nkind: FederatedResourceQuota\nmetadata: {name: team, namespace: NS}\nspec: {overall: {cpu: 150m}}\n---")],
        verdict: "stuck: quota scheduling-quota/team: 0 of 150m cpu used; this needs 200m more",
        fix: "raise spec.overall.cpu (kubectl edit federatedresourcequota -n scheduling-quota team)",
        condition: "FederatedResourceQuota(scheduling-quota/team) exceeded for resource cpu: requested sum 200m, limit 150m.",
        ..DEFAULT
    },
    Situation {
        name: "scheduling-scheduler",
        changes: &[("  placement:", "  schedulerName: other\n  placement:")],
        verdict: "stuck: no scheduler named other decides about it",
        fix: "start the scheduler other, or correct spec.schedulerName in the policy",
        ..DEFAULT
    },
    // Between the decision and the members.
    Situation {
        name: "dispatch-suspended",
        changes: &[("  placement:", "  suspension: {dispatching: true}\n  placement:")],
        verdict: "waiting: dispatching to all clusters is suspended",
        fix: "remove spec.suspension from the policy",
        condition: "is suspended",
        ..DEFAULT
    },
    Situation {
        name: "dispatch-some",
        changes: &[("  placement:", "  suspension: {dispatchingOnClusters: {clusterNames: [member1]}}\n  placement:")],
        verdict: "waiting: dispatching to member1 is suspended",
        fix: "remove spec.suspension from the policy",
        condition: "is suspended",
        ..DEFAULT
    },
    // The overrides.
    Situation {
        name: "override-path",
        changes: &[],
        more: "---
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: change, namespace: NS}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  overrideRules: [{overriders: {plaintext: [{path: /spec/nothing/there, operator: replace, value: 1}]}}]
",
        verdict: "stuck: an override cannot be applied: override policy \"change\" cannot be applied",
        fix: "correct the override policy",
        condition: "override policy \"change\" cannot be applied",
    },
    Situation {
        name: "override-refused",
        changes: &[],
        more: "---
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: change, namespace: NS}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  overrideRules: [{overriders: {plaintext: [{path: /spec/selector, operator: replace, value: {matchLabels: {app: other}}}]}}]
",
        verdict: "stuck: member1 refuses the object: Deployment.apps \"web\" is invalid",
        fix: "correct the template, or what an override policy changes for member1",
        condition: "is invalid",
    },
    // The application in the members.
    Situation {
        name: "apply-conflict",
        verdict: "stuck: member1 has this object already, from another owner: resource(kind=Deployment, apply-conflict/web) already exists in the cluster member1",
        fix: "look at the object in member1; then delete it there, or replace it with conflictResolution: Overwrite",
        condition: "already exists in the cluster member1",
        ..DEFAULT
    },
    Situation {
        name: "apply-terminating",
        verdict: "stuck: member1 cannot take the object into its namespace: ",
        fix: "look at the namespace in member1: it must exist and must not be under deletion",
        condition: "because it is being terminated",
        ..DEFAULT
    },
    Situation {
        name: "scheduling-kind",
        changes: &[("apiVersion: apps/v1, kind: Deployment, name: web", "apiVersion: example.io/v1, kind: Widget, name: web")],
        more: WIDGET,
        verdict: "stuck: 0/3 clusters are available: 3 cluster(s) did not have the API resource",
        fix: "install the API example.io/v1 Widget in member1",
        condition: "did not have the API resource",
    },
    // The pods.
    Situation {
        name: "run-crash",
        changes: &[("simulation.berth/start-delay: 0s", "simulation.berth/fails: crash")],
        verdict: "broken: 2 of 2 pods crash in member1: exit code 1; placed and applied",
        fix: "kubectl logs -n run-crash deployment/web --previous",
        condition: "2 of 2 pods crash in member1: exit code 1",
        ..DEFAULT
    },
    Situation {
        name: "run-pull",
        changes: &[("simulation.berth/start-delay: 0s", "simulation.berth/fails: pull")],
        verdict: "broken: 2 of 2 pods cannot pull their image in member1: shop; placed and applied",
        fix: "correct the image in the template",
        condition: "2 of 2 pods cannot pull their image in member1: shop",
        ..DEFAULT
    },
    Situation {
        name: "run-no-node",
        changes: &[
            ("      containers", "      nodeSelector: {disk: ssd}\n      containers"),
            ("replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated", "replicaSchedulingType: Duplicated"),
        ],
        verdict: "broken: 2 of 2 pods find no node in member1: ",
        fix: "request less, add nodes in member1",
        condition: "2 of 2 pods find no node in member1",
        ..DEFAULT
    },
    Situation {
        name: "run-quota",
        verdict: "broken: pods cannot be created in member1: ",
        fix: "raise the quota in member1",
        condition: "exceeded quota",
        ..DEFAULT
    },
    // The status.
    Situation {
        name: "status-lost",
        changes: &[("clusterNames: [member1]", "clusterNames: [member3]")],
        verdict: "broken: member3 is not ready: nothing is known about its 2 replicas",
        fix: "kubectl describe cluster member3",
        condition: "member3 is not ready",
        ..DEFAULT
    },
    Situation {
        name: "status-partly-lost",
        changes: &[
            ("clusterNames: [member1]", "clusterNames: [member2, member3]"),
            ("replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated", "replicaSchedulingType: Duplicated"),
        ],
        verdict: "degraded: member3 is not ready: nothing is known about its 2 replicas",
        fix: "kubectl describe cluster member3",
        condition: "member3 is not ready",
        ..DEFAULT
    },
];

impl Situation {
    fn manifests(&self) -> String {
        let mut text = WEB.to_owned();
        for (from, to) in self.changes {
            assert!(text.contains(from), "{}: {from}", self.name);
            text = text.replace(from, to);
        }
        text.push_str(self.more);
        text.replace("NS", self.name)
    }

    /// A part of the text of `berth explain` after the first lines.
    fn details(&self) -> &'static str {
        match self.name {
            "override-refused" => {
                "Changed by OverridePolicy change in member1:\n  - spec.selector.matchLabels.app: \"web\""
            }
            _ => "",
        }
    }

    /// Reports whether a binding shows the situation. The others are at the template and its policy.
    fn is_shown_by_binding(&self) -> bool {
        !self.name.starts_with("template-") && !self.name.starts_with("policy-")
    }

    fn kind(&self) -> &'static str {
        if self.more == WIDGET {
            "widget"
        } else {
            "deployment"
        }
    }
}

/// A custom kind that the members do not serve.
const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.io}
spec:
  group: example.io
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

fn apply(up: &Up, name: &str, manifests: &str) {
    let file = up.home.path().join(name);
    std::fs::write(&file, manifests).unwrap();
    up.kubectl(&["apply", "-f", file.to_str().unwrap()]);
}

/// Creates a namespace in member1 that is being deleted, and waits for a finalizer.
fn terminate_namespace(up: &Up) {
    let file = up.home.path().join("terminating.yaml");
    let manifest = "apiVersion: v1\nkind: Namespace\nmetadata: {name: apply-terminating, finalizers: [example.io/wait]}\n";
    std::fs::write(&file, manifest).unwrap();
    up.in_member("member1", &["apply", "-f", file.to_str().unwrap()]);
    let deletion = ["delete", "namespace", "apply-terminating", "--wait=false"];
    up.in_member("member1", &deletion);
}

/// Prepares what is in the way in the members, and creates all workloads.
fn create(up: &Up) {
    apply(up, "definition.yaml", DEFINITION);
    up.kubectl(&[
        "wait",
        "--for=condition=Established",
        "crd/widgets.example.io",
    ]);
    for namespace in ["apply-conflict", "run-quota"] {
        up.in_member("member1", &["create", "namespace", namespace]);
    }
    let deployment = [
        "-n",
        "apply-conflict",
        "create",
        "deployment",
        "web",
        "--image=own",
    ];
    up.in_member("member1", &deployment);
    let quota = [
        "-n",
        "run-quota",
        "create",
        "quota",
        "none",
        "--hard=pods=0",
    ];
    up.in_member("member1", &quota);
    terminate_namespace(up);
    let mut all = String::new();
    for situation in SITUATIONS {
        let _ = write!(all, "{}\n---\n", situation.manifests());
    }
    apply(up, "situations.yaml", &all);
    let deletion = [
        "-n",
        "template-deleting",
        "delete",
        "deployment",
        "web",
        "--wait=false",
    ];
    up.kubectl(&deletion);
    until("replicas in the member that fails", || {
        let path = "-o=jsonpath={.items[*].status.readyReplicas}";
        match up.in_member("member3", &["get", "deployments", "-A", path]) {
            ready if ready == "2 2" => Ok(()),
            other => Err(other),
        }
    });
    assert!(
        berth(up.home.path(), &["fail", "member3"])
            .status()
            .unwrap()
            .success()
    );
}

/// Waits until `berth status` names the Deployment of a namespace as one that no policy selects.
fn is_named_without_policy(up: &Up, namespace: &str) {
    until(&format!("{namespace}: the status"), || {
        let status = ["status", namespace, "--exit-code"];
        let output = berth(up.home.path(), &status).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let expected = format!(
            "1 workload has no policy, and stays in the control plane:\n  {namespace}/Deployment web\n"
        );
        if text.contains(&expected) && output.status.code() == Some(3) {
            Ok(())
        } else {
            Err(format!("{:?}: {text}", output.status))
        }
    });
}

#[needs(kubectl)]
#[test]
fn the_cause_and_the_next_action_are_in_the_first_lines() {
    let up = Up::start(&[
        "--members=3",
        "--cluster-status-update-frequency=200ms",
        "--cluster-failure-threshold=500ms",
    ]);
    create(&up);
    let page = Page::of(&up);
    for situation in SITUATIONS {
        let Situation {
            name,
            verdict,
            fix,
            condition,
            ..
        } = situation;
        let kind = situation.kind();
        let line = format!("{name}/web is {verdict}");
        until(name, || {
            let explain = ["explain", kind, "web", "-n", name];
            let output = berth(up.home.path(), &explain).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            let first: Vec<&str> = text.lines().take(3).collect();
            let first = first.join("\n");
            if first.contains(&line) && first.contains(fix) && text.contains(situation.details()) {
                Ok(())
            } else {
                Err(format!("{text}{errors}"))
            }
        });
        if name.starts_with("policy-") {
            is_named_without_policy(&up, name);
        }
        if !situation.is_shown_by_binding() {
            continue;
        }
        until(&format!("{name}: the binding"), || {
            let path = "-o=jsonpath={.status.conditions[*].message}";
            let binding = format!("resourcebinding/web-{kind}");
            let messages = up.kubectl(&["get", "-n", name, &binding, path]);
            // The controllers write no condition for a binding that was never placed.
            let has_fix = name.starts_with("scheduling-") || messages.contains("fix: ");
            if messages.contains(condition) && has_fix {
                Ok(())
            } else {
                Err(messages)
            }
        });
        let cause = verdict.split_once(": ").map_or("", |(_, cause)| cause);
        let cause = cause.split('"').next().unwrap_or(cause);
        until(&format!("{name}: the dashboard"), || {
            let list = page.get(&format!("/bindings?namespace={name}"));
            if list.contains(cause) && list.contains("Next: ") {
                Ok(())
            } else {
                Err(list)
            }
        });
    }
}
