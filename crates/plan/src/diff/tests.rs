use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::pending;
use std::sync::Mutex;

use berth_api::ResourceBinding;
use berth_api::well_known::APPLIED_OVERRIDES;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use serde_json::{Value, json};
use tokio_util::bytes::Bytes;

use super::*;

const LIMIT: Duration = Duration::from_secs(10);
const PROXY: &str = "/apis/cluster.karmada.io/v1alpha1/clusters/";

/// A control plane with a Secret that is placed on clusters, and its members.
#[derive(Default)]
struct FakeServers {
    clusters: Vec<String>,
    /// Members and paths of the control plane that do not respond.
    silent: BTreeSet<String>,
    /// The members that were asked.
    asked: Mutex<BTreeSet<String>>,
}

impl FakeServers {
    fn new(clusters: usize) -> Self {
        Self {
            clusters: (0..clusters).map(|index| format!("m{index:02}")).collect(),
            ..Self::default()
        }
    }

    fn client(self: &Arc<Self>) -> Client {
        let servers = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<Body>| {
            let servers = Arc::clone(&servers);
            async move {
                let (parts, body) = request.into_parts();
                let response = if parts.method == Method::PUT {
                    assert_eq!(parts.uri.query(), Some("&dryRun=All"));
                    body.collect().await.unwrap().to_bytes()
                } else {
                    servers.get(parts.uri.path()).await.to_string().into()
                };
                Ok::<_, Infallible>(Response::new(Full::<Bytes>::new(response)))
            }
        });
        Client::new(service, "default")
    }

    async fn get(&self, path: &str) -> Value {
        let member = path.strip_prefix(PROXY);
        let member = member.and_then(|rest| rest.split_once("/proxy"));
        if let Some((member, _)) = member {
            self.asked.lock().unwrap().insert(member.to_owned());
        }
        let (name, path) = member.unwrap_or(("", path));
        if self.silent.contains(name) || self.silent.contains(path) {
            pending::<()>().await;
        }
        match path {
            "/api/v1" => json!({"groupVersion": "v1", "resources": [
                {"name": "secrets", "singularName": "", "namespaced": true, "kind": "Secret", "verbs": ["get"]}]}),
            "/api/v1/namespaces/shop/secrets/web" => secret(if name.is_empty() {
                "template"
            } else {
                "member"
            }),
            "/apis/cluster.karmada.io/v1alpha1" => {
                json!({"groupVersion": "cluster.karmada.io/v1alpha1", "resources": [{"name": "clusters/proxy",
                    "singularName": "", "namespaced": false, "kind": "Cluster", "verbs": ["get"]}]})
            }
            "/apis/work.karmada.io/v1alpha1/works" => {
                let works = self.clusters.iter().map(|cluster| {
                    json!({"metadata": {"name": "web", "namespace": format!("karmada-es-{cluster}")},
                        "spec": {"workload": {"manifests": [secret(cluster)]}}})
                });
                json!({"metadata": {}, "items": works.collect::<Vec<_>>()})
            }
            _ => json!({"metadata": {}, "items": []}),
        }
    }

    async fn diff(self: &Arc<Self>) -> Result<DiffReport, DiffError> {
        let client = self.client();
        diff_within(LIMIT, &client, &client, &self.binding(), |_| None).await
    }

    fn binding(&self) -> Binding {
        let clusters = self.clusters.iter().map(|name| json!({"name": name}));
        let clusters: Vec<Value> = clusters.collect();
        let binding: ResourceBinding = serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": "web-secret",
                "labels": {"resourcebinding.karmada.io/permanent-id": "id"}},
            "spec": {"resource": {"apiVersion": "v1", "kind": "Secret", "namespace": "shop", "name": "web"},
                "clusters": clusters},
        }))
        .unwrap();
        binding.into()
    }
}

/// Returns a Secret whose values contain the text `plain`.
fn secret(owner: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": "web"},
        "data": {"password": format!("plain-{owner}")}})
}

/// Returns the clusters that cannot be read, with the reasons.
fn unreadable(report: &DiffReport) -> Vec<(&str, &str)> {
    let clusters = report.clusters.iter();
    let unreadable = clusters.filter_map(|of| match &of.member {
        MemberDiff::Unreadable { reason } => Some((of.cluster.as_str(), reason.as_str())),
        _ => None,
    });
    unreadable.collect()
}

#[tokio::test(start_paused = true)]
async fn a_silent_member_does_not_delay_the_others() {
    let mut servers = FakeServers::new(3 * CONCURRENT_MEMBERS);
    servers.silent.insert("m00".to_owned());
    let servers = Arc::new(servers);
    let report = servers.diff().await.unwrap();
    let late = "no response before the end of the time for all members";
    assert_eq!(unreadable(&report), [("m00", late)]);
    let names: Vec<&String> = report.clusters.iter().map(|of| &of.cluster).collect();
    assert_eq!(names, servers.clusters.iter().collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn no_member_is_asked_after_the_deadline() {
    let mut servers = FakeServers::new(2 * CONCURRENT_MEMBERS);
    servers.silent.extend(servers.clusters.clone());
    let servers = Arc::new(servers);
    let report = servers.diff().await.unwrap();
    let unreadable = unreadable(&report);
    assert_eq!(unreadable.len(), 2 * CONCURRENT_MEMBERS);
    let (asked, rest) = unreadable.split_at(CONCURRENT_MEMBERS);
    assert!(
        asked
            .iter()
            .all(|(_, reason)| reason.starts_with("no response")),
        "{asked:?}"
    );
    assert!(
        rest.iter()
            .all(|(_, reason)| reason.starts_with("not asked: ")),
        "{rest:?}"
    );
    assert_eq!(servers.asked.lock().unwrap().len(), CONCURRENT_MEMBERS);
}

#[tokio::test(start_paused = true)]
async fn a_silent_control_plane_ends_the_comparison() {
    for path in [
        "/apis/work.karmada.io/v1alpha1/works",
        "/apis/cluster.karmada.io/v1alpha1",
    ] {
        let mut servers = FakeServers::new(1);
        servers.silent.insert(path.to_owned());
        let compared = tokio::time::timeout(2 * LIMIT, Arc::new(servers).diff()).await;
        let error = compared.expect(path).unwrap_err();
        assert!(matches!(error, DiffError::Late(_)), "{path}: {error}");
    }
}

#[tokio::test]
async fn the_comparison_with_members_masks_the_values_of_a_secret() {
    let report = Arc::new(FakeServers::new(2)).diff().await.unwrap();
    let text = format!("{report:?}");
    assert!(!text.contains("plain"), "{text}");
    let of = &report.clusters[0];
    let MemberDiff::Different { fields } = &of.member else {
        panic!("{text}");
    };
    let variation = &report.between_clusters[0];
    let fields = [&fields[0].field, &of.template[0].field, &variation.field];
    assert_eq!(fields, ["data.password"; 3]);
}

#[tokio::test]
async fn the_changes_by_overrides_mask_the_values_of_a_secret() {
    let servers = Arc::new(FakeServers::new(2));
    let (client, binding) = (servers.client(), servers.binding());
    let mut works = crate::binding_objects::works(&client, &binding)
        .await
        .unwrap();
    assert_eq!(override_changes(&client, &binding, works.clone()).await, []);
    for (_, work) in &mut works {
        let applied = json!([{"policyName": "web", "overriders": {}}]).to_string();
        let annotations = work.metadata.annotations.get_or_insert_default();
        annotations.insert(APPLIED_OVERRIDES.to_owned(), applied);
    }
    let groups = override_changes(&client, &binding, works).await;
    let text = format!("{groups:?}");
    assert!(!text.contains("plain"), "{text}");
    let fields = groups[0].fields.as_ref().unwrap();
    assert_eq!(fields[0].field, "data.password");
    assert_eq!(groups[0].policies, ["OverridePolicy web"]);
}

#[tokio::test]
async fn the_differences_of_wanted_objects_mask_the_values_of_a_secret() {
    let servers = Arc::new(FakeServers::new(2));
    let report = wanted_diff(&servers.client(), &servers.binding()).await;
    let report = report.unwrap();
    let text = format!("{report:?}");
    assert!(!text.contains("plain"), "{text}");
    let fields = [
        &report.clusters[0].template[0].field,
        &report.between_clusters[0].field,
    ];
    assert_eq!(fields, ["data.password"; 2]);
}
