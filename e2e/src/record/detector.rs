//! Recording of Karmada's admission and detector: which objects are accepted, the stored policies, the bindings, and the
//! marks on the templates.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};
use serde_json::{Map, Value, json};

use super::data_file::{in_repository, read, write};
use super::programs::{self, Definitions, Programs};
use super::{RecordError, Recorded, Report, webhook};
use crate::detector_cases::{self as cases, Case, Cases, without_ids};
use crate::program::free_port;
use crate::{KubeApiserver, Program, eventually};

/// The time without changes of bindings after which the detector is idle.
const QUIET_TIME: Duration = Duration::from_secs(8);
/// The time limit until the detector is idle.
const QUIET_TIMEOUT: Duration = Duration::from_mins(3);

/// Creates the objects of the recorded cases on a kube-apiserver with karmada-webhook and the detector of
/// karmada-controller-manager, and records the results.
///
/// # Errors
/// If a program or a definition is missing, or a program fails.
pub async fn record(programs: &Programs, definitions: &Definitions) -> Result<Report, RecordError> {
    let manager = programs.find("karmada-controller-manager")?;
    let webhook = programs.find("karmada-webhook")?;
    let assets = programs::assets()?;
    let definitions = super::definitions::parse(&definitions.texts()?)?;
    let recorded = Recorded::today([
        ("karmada-controller-manager", programs::version(&manager)?),
        ("karmada-webhook", programs::version(&webhook)?),
        ("kube-apiserver", programs::apiserver_version(&assets)?),
    ]);
    let file = in_repository("e2e/data/detector.json.gz");
    let old: Cases = serde_json::from_str(&read(&file)?)?;

    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().map_err(|error| RecordError::Api(error.to_string()))?;
    let server = KubeApiserver::start(&assets, folder.path()).await;
    let client = server.client().await;
    install(&client, definitions).await?;
    let admission = start_webhook(&webhook, &server, folder.path(), &client).await?;
    let flags = ["--leader-elect=false".to_owned()];
    let detector = programs::start(&manager, server.kubeconfig(), folder.path(), &flags);
    let mut cases = old.cases.clone();
    replay(&client, &mut cases).await?;
    drop((detector, admission));

    let by_id = |cases: &[Case]| -> Result<BTreeMap<String, Value>, RecordError> {
        let mut entries = BTreeMap::new();
        for case in cases {
            let mut case = case.clone();
            normalize(&mut case);
            entries.insert(case.id.clone(), serde_json::to_value(&case)?);
        }
        Ok(entries)
    };
    let report = Report::new(file.clone(), &by_id(&old.cases)?, &by_id(&cases)?);
    let data = Cases {
        recorded: json!(recorded),
        cases,
    };
    write(&file, &format!("{}\n", json!(data)))?;
    Ok(report)
}

/// Installs Karmada's definitions, Karmada's namespaces, and the definition of Cluster, which Karmada serves with an
/// API server of its own.
async fn install(client: &Client, mut definitions: Vec<Value>) -> Result<(), RecordError> {
    let all = berth_api::crds::all();
    let cluster = all
        .iter()
        .find(|definition| definition.spec.names.kind == "Cluster");
    definitions.extend(cluster.map(serde_json::to_value).transpose()?);
    for definition in &definitions {
        apply(client, definition).await?;
    }
    for namespace in ["karmada-system", "karmada-cluster"] {
        cases::create_namespace(client, namespace).await;
    }
    let kinds = [
        ApiResource::erase::<berth_api::PropagationPolicy>(&()),
        ApiResource::erase::<berth_api::ClusterPropagationPolicy>(&()),
        ApiResource::erase::<berth_api::ResourceBinding>(&()),
        ApiResource::erase::<berth_api::ClusterResourceBinding>(&()),
    ];
    for kind in kinds {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
        eventually(&kind.plural, async || {
            api.list(&ListParams::default()).await
        })
        .await;
    }
    Ok(())
}

async fn apply(client: &Client, object: &Value) -> Result<(), RecordError> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let parameters = PatchParams::apply("record").force();
    let api = cases::api_of(client, object);
    api.patch(name, &parameters, &Patch::Apply(object)).await?;
    Ok(())
}

/// Starts karmada-webhook, and waits until the server calls it.
async fn start_webhook(
    program: &Path,
    server: &KubeApiserver,
    folder: &Path,
    client: &Client,
) -> Result<Program, RecordError> {
    let failed = |error: String| RecordError::Program {
        program: program.display().to_string(),
        message: error,
    };
    let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]);
    let pair = pair.map_err(|error| failed(error.to_string()))?;
    let certificate = pair.cert.pem();
    for (file, text) in [
        ("tls.crt", &certificate),
        ("tls.key", &pair.signing_key.serialize_pem()),
    ] {
        write(&folder.join(file), text)?;
    }
    let port = free_port();
    let flags = [
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--cert-dir={}", folder.display()),
    ];
    let process = programs::start(program, server.kubeconfig(), folder, &flags);
    eventually("the webhook to listen", async || {
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map(drop)
    })
    .await;
    apply(client, &webhook::mutating(port, &certificate)).await?;
    apply(client, &webhook::validating(port, &certificate)).await?;
    wait_until_called(client).await?;
    Ok(process)
}

/// Waits until the server calls the mutating and the validating webhooks of both kinds of policies.
async fn wait_until_called(client: &Client) -> Result<(), RecordError> {
    for (kind, namespace) in [
        ("PropagationPolicy", json!("default")),
        ("ClusterPropagationPolicy", Value::Null),
    ] {
        let selector = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }]);
        let valid = json!({ "apiVersion": "policy.karmada.io/v1alpha1", "kind": kind,
            "metadata": { "name": "probe", "namespace": namespace },
            "spec": { "resourceSelectors": selector } });
        let mut invalid = valid.clone();
        invalid["spec"]["placement"] =
            json!({ "spreadConstraints": [{ "spreadByField": "zone", "minGroups": 1 }] });
        let (valid, invalid): (DynamicObject, DynamicObject) = (
            serde_json::from_value(valid)?,
            serde_json::from_value(invalid)?,
        );
        let object = serde_json::to_value(&valid)?;
        let api = cases::api_of(client, &object);
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        eventually("calls of the webhooks", async || {
            let stored = api.create(&dry_run, &valid).await;
            let stored = stored.map_err(|error| error.to_string())?;
            if stored.labels().is_empty() {
                return Err("a policy has no permanent id".to_owned());
            }
            match api.create(&dry_run, &invalid).await {
                Ok(_) => Err("an invalid policy is accepted".to_owned()),
                Err(_) => Ok(()),
            }
        })
        .await;
    }
    Ok(())
}

/// Creates the objects of all cases in rounds: the first object of each case, then the second, and so on. Waits for the
/// detector after each round, and then records the results in the cases.
async fn replay(client: &Client, cases: &mut [Case]) -> Result<(), RecordError> {
    for case in &mut *cases {
        case.create_namespace(client).await;
        case.admitted.clear();
    }
    let rounds = cases.iter().map(|case| case.objects.len()).max();
    for round in 0..rounds.unwrap_or(0) {
        for case in &mut *cases {
            let Some(object) = case.objects.get(round) else {
                continue;
            };
            let dynamic: DynamicObject = serde_json::from_value(object.clone())?;
            let api = cases::api_of(client, object);
            let admitted = match api.create(&PostParams::default(), &dynamic).await {
                Ok(_) => json!({ "accepted": true }),
                Err(kube::Error::Api(status)) => {
                    json!({ "accepted": false, "error": status.message })
                }
                Err(error) => return Err(error.into()),
            };
            case.admitted.push(admitted);
        }
        wait_until_quiet(client).await?;
    }
    for case in cases {
        for (object, admitted) in case.objects.iter().zip(&mut case.admitted) {
            if !cases::is_policy(object) || admitted["accepted"] != true {
                continue;
            }
            let stored = cases::get(client, object).await.unwrap_or_default();
            let meta = &stored["metadata"];
            let keys = meta["labels"].as_object().into_iter().flat_map(Map::keys);
            admitted["spec"] = stored["spec"].clone();
            admitted["labels"] = json!(keys.collect::<Vec<_>>());
            admitted["finalizers"] = meta["finalizers"].clone();
        }
        case.bindings = cases::bindings_of(client, case).await;
        let template = cases::get(client, case.template())
            .await
            .unwrap_or_default();
        let meta = &template["metadata"];
        case.template = json!({ "labels": meta["labels"], "annotations": meta["annotations"] });
        normalize(case);
    }
    Ok(())
}

/// Waits until no binding has changed for [`QUIET_TIME`].
async fn wait_until_quiet(client: &Client) -> Result<(), RecordError> {
    let end = Instant::now() + QUIET_TIMEOUT;
    let (mut seen, mut since) = (BTreeSet::new(), Instant::now());
    while since.elapsed() < QUIET_TIME {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut now = BTreeSet::new();
        for kind in [
            ApiResource::erase::<berth_api::ResourceBinding>(&()),
            ApiResource::erase::<berth_api::ClusterResourceBinding>(&()),
        ] {
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
            let bindings = api.list(&ListParams::default()).await?.items;
            now.extend(
                bindings
                    .iter()
                    .map(|binding| (binding.uid(), binding.resource_version())),
            );
        }
        if now != seen {
            if Instant::now() >= end {
                return Err(RecordError::Api("bindings still change".to_owned()));
            }
            (seen, since) = (now, Instant::now());
        }
    }
    Ok(())
}

/// Brings a case into normal form: without permanent ids, and with refusals in one wording.
fn normalize(case: &mut Case) {
    for map in ["labels", "annotations"] {
        case.template[map] = without_ids(&case.template[map]);
    }
    for admitted in &mut case.admitted {
        if let Some(error) = admitted["error"].as_str() {
            admitted["error"] = json!(refusal(error, &case.namespace));
        }
    }
}

/// Returns the wording that the message of the API server and the error of kubectl have in common. The namespace, which
/// is part of the names of cluster-scoped policies, is replaced.
fn refusal(error: &str, namespace: &str) -> String {
    let error = error.replace(namespace, "NS");
    let after_kubectl = error.split_once("error when creating \"STDIN\": ");
    let message = after_kubectl.map_or(&*error, |(_, message)| message);
    let message = message.strip_prefix("The ").unwrap_or(message);
    let Some((kind, rest)) = message.split_once(' ') else {
        return message.to_owned();
    };
    // The server names the kind with its group, and kubectl without.
    let kind = kind.split('.').next().unwrap_or(kind);
    format!("{kind} {rest}")
}

#[cfg(test)]
mod tests {
    use super::refusal;

    #[test]
    fn clients_show_the_same_refusal() {
        for (error, expected) in [
            (
                "Error from server (Forbidden): error when creating \"STDIN\": admission webhook \"a\" denied the \
                 request: spec.b",
                "admission webhook \"a\" denied the request: spec.b",
            ),
            (
                "admission webhook \"a\" denied the request: spec.b",
                "admission webhook \"a\" denied the request: spec.b",
            ),
            (
                "The PropagationPolicy \"p0\" is invalid: spec.b",
                "PropagationPolicy \"p0\" is invalid: spec.b",
            ),
            (
                "ClusterPropagationPolicy.policy.karmada.io \"ns7-p0\" is invalid: spec.b",
                "ClusterPropagationPolicy \"NS-p0\" is invalid: spec.b",
            ),
        ] {
            assert_eq!(refusal(error, "ns7"), expected);
        }
    }
}
