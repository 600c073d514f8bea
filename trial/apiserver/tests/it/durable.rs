//! Tests of durability: restarts, storage failures, and responses that the server delays until a change is durable.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use berth_apiserver::{
    DataDir, Durability, Kept, Progress, Record, Server, ServerConfig, Storage, StorageError, Undo,
};
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service, ServiceAccount};
use kube::Api;
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::runtime::{conditions, wait::await_condition};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::harness::{Harness, TIMEOUT, widget};

/// Starts a server that stores its data in this folder.
async fn start_in(folder: &Path, listen: Option<SocketAddr>) -> Harness {
    let data = DataDir::open(folder, Durability::ProcessEnd).unwrap();
    let (objects, credentials) = data.server("here").unwrap();
    let defaults = ServerConfig::default();
    Harness::with(ServerConfig {
        listen: listen.unwrap_or(defaults.listen),
        storage: Box::new(objects),
        credentials: Some(credentials),
        ..defaults
    })
    .await
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"a": "b"}})).unwrap()
}

fn version(map: &ConfigMap) -> u64 {
    let version = map.metadata.resource_version.as_deref().unwrap();
    version.parse().unwrap()
}

#[tokio::test]
async fn objects_and_credentials_survive_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let before = start_in(home.path(), None).await;
    let address = before.server.address();
    let widgets = before.install_widgets().await;
    let one = widgets
        .create(
            &PostParams::default(),
            &widget("w", &json!({"color": "red"})),
        )
        .await
        .unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(before.client.clone());
    let kept = maps
        .create(&PostParams::default(), &config_map("kept"))
        .await
        .unwrap();
    let gone = maps
        .create(&PostParams::default(), &config_map("gone"))
        .await
        .unwrap();
    maps.delete("gone", &DeleteParams::default()).await.unwrap();
    let accounts: Api<ServiceAccount> = Api::default_namespaced(before.client.clone());
    let account = serde_json::from_value(json!({"metadata": {"name": "robot"}})).unwrap();
    accounts
        .create(&PostParams::default(), &account)
        .await
        .unwrap();
    let token = accounts
        .create_token_request(
            "robot",
            &PostParams::default(),
            &serde_json::from_value(json!({"spec": {"audiences": []}})).unwrap(),
        )
        .await
        .unwrap();
    let token = token.status.unwrap().token;
    let last = maps.list(&ListParams::default()).await.unwrap();
    let last = last.metadata.resource_version.unwrap();
    let kubeconfig = before.server.kubeconfig("test");
    before.server.shutdown().await;

    let after = start_in(home.path(), Some(address)).await;
    assert_eq!(
        after.server.kubeconfig("test"),
        kubeconfig,
        "the kubeconfig stays valid"
    );
    // The credentials of the old client stay valid.
    let maps: Api<ConfigMap> = Api::default_namespaced(before.client.clone());
    assert_eq!(maps.get("kept").await.unwrap(), kept);
    assert!(maps.get_opt("gone").await.unwrap().is_none());
    let widgets = after.api("test.example.com", "v1", "Widget", "widgets");
    assert_eq!(widgets.get("w").await.unwrap(), one);
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let (_, response) = after
        .raw("POST", path, "application/json", review.to_string().into())
        .await;
    assert_eq!(response["status"]["authenticated"], true, "{response}");

    // New resourceVersions are greater than before the restart, and a watch resumes at an old resourceVersion.
    let next = maps
        .create(&PostParams::default(), &config_map("next"))
        .await
        .unwrap();
    assert!(version(&next) > last.parse().unwrap());
    let first_event = async |from: &str| {
        let stream = maps.watch(&WatchParams::default(), from).await.unwrap();
        let mut stream = stream.boxed();
        tokio::time::timeout(TIMEOUT, stream.try_next())
            .await
            .unwrap()
            .unwrap()
            .unwrap()
    };
    match first_event(&last).await {
        WatchEvent::Added(map) => assert_eq!(map.metadata.name.as_deref(), Some("next")),
        other => panic!("{other:?}"),
    }
    // A watch from a version before the delete first receives the DELETED event.
    match first_event(gone.metadata.resource_version.as_deref().unwrap()).await {
        WatchEvent::Deleted(map) => assert_eq!(map.metadata.name.as_deref(), Some("gone")),
        other => panic!("{other:?}"),
    }
}

/// Returns the type and the object name of the next event.
async fn next_of(
    events: &mut (impl Stream<Item = kube::Result<WatchEvent<ConfigMap>>> + Unpin),
) -> String {
    let event = tokio::time::timeout(TIMEOUT, events.try_next())
        .await
        .unwrap();
    match event.unwrap().unwrap() {
        WatchEvent::Added(map) => format!("added {}", map.metadata.name.unwrap()),
        WatchEvent::Modified(map) => format!("modified {}", map.metadata.name.unwrap()),
        WatchEvent::Deleted(map) => format!("deleted {}", map.metadata.name.unwrap()),
        other => panic!("{other:?}"),
    }
}

/// Field selector for all ConfigMaps except the ConfigMap that the server creates.
const OWN: &str = "metadata.name!=kube-root-ca.crt";

#[tokio::test]
async fn the_watch_history_survives_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let before = start_in(home.path(), None).await;
    let address = before.server.address();
    let maps: Api<ConfigMap> = Api::default_namespaced(before.client.clone());
    let create = async |name: &str| {
        let map = config_map(name);
        maps.create(&PostParams::default(), &map).await.unwrap()
    };
    let label = async |name: &str, value: &str| {
        let labels = Patch::Merge(json!({"metadata": {"labels": {"colour": value}}}));
        let patched = maps.patch(name, &PatchParams::default(), &labels).await;
        patched.unwrap()
    };
    create("a").await;
    create("b").await;
    label("a", "red").await;
    label("b", "red").await;
    create("d").await;
    let two = ListParams::default().fields(OWN).limit(2);
    let page = maps.list(&two).await.unwrap();
    let start = page.metadata.resource_version.clone().unwrap();
    let names = |list: &[ConfigMap]| -> Vec<String> {
        list.iter()
            .filter_map(|map| map.metadata.name.clone())
            .collect()
    };
    assert_eq!(names(&page.items), ["a", "b"]);
    // For a watch with the selector `colour=red`, `a` leaves the selection, `c` enters it, and `b` is deleted. The new
    // `b` has no colour.
    label("a", "blue").await;
    create("c").await;
    label("c", "red").await;
    maps.delete("b", &DeleteParams::default()).await.unwrap();
    create("b").await;
    before.server.shutdown().await;

    let restart = async |address| start_in(home.path(), Some(address)).await;
    let after = restart(address).await;
    let red = WatchParams::default().labels("colour=red");
    let mut all = maps
        .watch(&WatchParams::default().fields(OWN), &start)
        .await
        .unwrap()
        .boxed();
    for expected in [
        "modified a",
        "added c",
        "modified c",
        "deleted b",
        "added b",
    ] {
        assert_eq!(next_of(&mut all).await, expected);
    }
    let mut red = maps.watch(&red, &start).await.unwrap().boxed();
    for expected in ["deleted a", "added c", "deleted b"] {
        assert_eq!(next_of(&mut red).await, expected);
    }
    let then = ListParams::default()
        .fields(OWN)
        .at(&start)
        .matching(kube::api::VersionMatch::Exact);
    let then = maps.list(&then).await.unwrap();
    assert_eq!(names(&then.items), ["a", "b", "d"]);
    let labels = then.items[0].metadata.labels.clone().unwrap();
    assert_eq!(labels["colour"], "red", "the label at the old version");
    let rest = two
        .clone()
        .continue_token(&page.metadata.continue_.unwrap());
    let rest = maps.list(&rest).await.unwrap();
    assert_eq!(names(&rest.items), ["d"], "the list at the old version");
    // The running watch also receives later changes. These changes survive the next restart.
    create("e").await;
    assert_eq!(next_of(&mut all).await, "added e");
    drop((all, red));
    after.server.shutdown().await;
    let after = restart(address).await;
    let mut all = maps
        .watch(&WatchParams::default().fields(OWN), &start)
        .await
        .unwrap()
        .boxed();
    for expected in [
        "modified a",
        "added c",
        "modified c",
        "deleted b",
        "added b",
        "added e",
    ] {
        assert_eq!(next_of(&mut all).await, expected);
    }
    drop(all);
    after.server.shutdown().await;

    // Without the journal of changes, old versions are expired.
    std::fs::remove_file(home.path().join("here/changes.log")).unwrap();
    let _after = restart(address).await;
    let mut all = maps
        .watch(&WatchParams::default().fields(OWN), &start)
        .await
        .unwrap()
        .boxed();
    let event = tokio::time::timeout(TIMEOUT, all.next()).await.unwrap();
    match event.unwrap().unwrap() {
        WatchEvent::Error(status) => assert_eq!(status.code, 410),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn background_work_resumes_after_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let before = start_in(home.path(), None).await;
    let namespaces: Api<Namespace> = Api::all(before.client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": "going"}})).unwrap();
    let namespace = namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    let mut finalized = config_map("held");
    finalized.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    let maps: Api<ConfigMap> = Api::namespaced(before.client.clone(), "going");
    maps.create(&PostParams::default(), &finalized)
        .await
        .unwrap();
    namespaces
        .delete("going", &DeleteParams::default())
        .await
        .unwrap();
    before.server.shutdown().await;

    let after = start_in(home.path(), None).await;
    let maps: Api<ConfigMap> = Api::namespaced(after.client.clone(), "going");
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let released = maps.patch("held", &PatchParams::default(), &release).await;
    // The patch succeeds even if the server has already deleted the objects of the namespace, because the finalizer
    // keeps the ConfigMap.
    released.unwrap();
    let uid = namespace.metadata.uid.unwrap();
    let gone = await_condition(
        Api::<Namespace>::all(after.client.clone()),
        "going",
        conditions::is_deleted(&uid),
    );
    tokio::time::timeout(TIMEOUT, gone).await.unwrap().unwrap();
}

/// A storage that persists or loses changes as a test requests.
#[derive(Clone)]
struct ControlledStorage {
    /// The version of the last change that the storage accepted.
    taken: watch::Sender<u64>,
    progress: watch::Sender<Progress>,
    undo: Arc<Mutex<Option<Undo>>>,
}

impl ControlledStorage {
    fn new() -> Self {
        Self {
            taken: watch::Sender::new(0),
            progress: watch::Sender::new(Progress {
                kept: u64::MAX,
                ..Progress::default()
            }),
            undo: Arc::default(),
        }
    }

    fn taken(&self) -> watch::Receiver<u64> {
        self.taken.subscribe()
    }

    /// Reports the changes up to `version` as durable, and later changes as not durable.
    fn persist_up_to(&self, version: u64) {
        self.progress
            .send_modify(|progress| progress.kept = version);
    }

    /// Waits until the storage accepts a change after `version`.
    async fn until_ahead_of(&self, version: u64) {
        let mut taken = self.taken();
        let ahead = taken.wait_for(|taken| *taken > version);
        tokio::time::timeout(TIMEOUT, ahead).await.unwrap().unwrap();
    }

    /// Refuses new changes, and undoes all changes that are not durable. A full disk has the same effect.
    fn fail(&self, message: &str) {
        let error = StorageError(message.to_owned());
        let mut progress = self.progress.borrow().clone();
        progress.refusing = Some(error);
        self.progress.send_replace(progress.clone());
        let undo = self.undo.lock().unwrap();
        undo.as_ref().unwrap()(progress.kept);
        progress.losses += 1;
        self.progress.send_replace(progress);
    }

    /// Accepts and persists all changes again.
    fn repair(&self) {
        self.progress.send_modify(|progress| {
            progress.refusing = None;
            progress.kept = u64::MAX;
        });
    }
}

impl Storage for ControlledStorage {
    fn load(&self) -> Result<Kept, StorageError> {
        Ok(Kept::default())
    }

    fn on_loss(&self, undo: Undo) {
        *self.undo.lock().unwrap() = Some(undo);
    }

    fn write(&self, record: Record) -> Result<(), StorageError> {
        if let Some(error) = &self.progress.borrow().refusing {
            return Err(error.clone());
        }
        self.taken.send_replace(record.version);
        Ok(())
    }

    fn progress(&self) -> Option<watch::Receiver<Progress>> {
        Some(self.progress.subscribe())
    }

    fn close(&self) {}
}

async fn with_controlled_storage() -> (ControlledStorage, Harness) {
    let storage = ControlledStorage::new();
    let server = Harness::with(ServerConfig {
        storage: Box::new(storage.clone()),
        ..ServerConfig::default()
    })
    .await;
    (storage, server)
}

#[tokio::test]
async fn responses_wait_until_changes_are_durable() {
    let (storage, h) = with_controlled_storage().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(h.client.clone());
    let first = maps
        .create(&PostParams::default(), &config_map("first"))
        .await
        .unwrap();
    let mut events = maps
        .watch(
            &WatchParams::default(),
            first.metadata.resource_version.as_deref().unwrap(),
        )
        .await
        .unwrap()
        .boxed();
    let before = *storage.taken().borrow();
    storage.persist_up_to(before);
    let writing = tokio::spawn({
        let maps = maps.clone();
        async move {
            maps.create(&PostParams::default(), &config_map("second"))
                .await
        }
    });
    storage.until_ahead_of(before).await;
    // The change is in memory but not durable. The server must delay the responses to the writer, a reader and a watch.
    let soon = std::time::Duration::from_millis(200);
    let read = maps.get_opt("second");
    assert!(tokio::time::timeout(soon, read).await.is_err());
    assert!(tokio::time::timeout(soon, events.next()).await.is_err());
    assert!(!writing.is_finished());
    storage.persist_up_to(u64::MAX);
    tokio::time::timeout(TIMEOUT, writing)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    let event = tokio::time::timeout(TIMEOUT, events.next()).await.unwrap();
    assert!(matches!(event, Some(Ok(WatchEvent::Added(_)))), "{event:?}");
}

#[tokio::test]
async fn lost_changes_are_undone_for_reads_and_watches() {
    let (storage, h) = with_controlled_storage().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(h.client.clone());
    let create = async |name: &str| maps.create(&PostParams::default(), &config_map(name)).await;
    create("changed").await.unwrap();
    create("deleted").await.unwrap();
    let first = create("first").await.unwrap();
    let from = first.metadata.resource_version.clone().unwrap();
    let mut events = maps
        .watch(&WatchParams::default(), &from)
        .await
        .unwrap()
        .boxed();
    // No object matches the selector of this watch yet. The watch reads the history beyond the durable version, because
    // a watch waits for durability only before it sends events.
    let nothing = WatchParams::default().labels("colour=none");
    let mut quiet = maps.watch(&nothing, &from).await.unwrap().boxed();
    // The storage loses four writes: the creation, the patch and the deletion of three different ConfigMaps, and the
    // creation of a CustomResourceDefinition.
    let before = *storage.taken().borrow();
    storage.persist_up_to(before);
    let one = |name: &str| format!("/api/v1/namespaces/default/configmaps/{name}");
    let (changed, deleted) = (one("changed"), one("deleted"));
    let all = "/api/v1/namespaces/default/configmaps";
    let mut gadgets = serde_json::to_value(crate::harness::widgets()).unwrap();
    gadgets["metadata"]["name"] = json!("gadgets.test.example.com");
    gadgets["spec"]["names"] = json!({"plural": "gadgets", "kind": "Gadget"});
    gadgets["apiVersion"] = json!("apiextensions.k8s.io/v1");
    gadgets["kind"] = json!("CustomResourceDefinition");
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let json_type = "application/json";
    let new = serde_json::to_vec(&config_map("new")).unwrap();
    let patch = br#"{"data": {"a": "c"}}"#.to_vec();
    let writes = async {
        futures::join!(
            h.raw("POST", all, json_type, new.clone()),
            h.raw(
                "PATCH",
                &changed,
                "application/merge-patch+json",
                patch.clone()
            ),
            h.raw("DELETE", &deleted, json_type, Vec::new()),
            h.raw("POST", definitions, json_type, gadgets.to_string().into()),
        )
    };
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        let maps = items.map(|map| &map["metadata"]["name"]);
        maps.map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    let fail = async {
        storage.until_ahead_of(before + 3).await;
        // The server handles this read while the changes are in memory, and delays the response until the changes are
        // durable or undone.
        let read = h.raw("GET", all, json_type, Vec::new());
        let mut read = std::pin::pin!(read);
        let soon = std::time::Duration::from_millis(200);
        assert!(tokio::time::timeout(soon, &mut read).await.is_err());
        storage.fail("cannot write to objects.redb: No space left on device");
        tokio::time::timeout(TIMEOUT, read).await.unwrap()
    };
    let (responses, (code, list)) = futures::join!(writes, fail);
    for (code, response) in <[_; 4]>::from(responses) {
        assert_eq!(code, 507, "{response}");
        let message = response["message"].as_str().unwrap();
        assert!(message.contains("objects.redb: No space left"), "{message}");
    }
    let as_before = ["changed", "deleted", "first", "kube-root-ca.crt"];
    let is_as_before = |list: &Value| {
        let names = names(list);
        names.iter().all(|name| as_before.contains(&name.as_str())) && names.len() >= 3
    };
    assert_eq!(code, 200, "{list}");
    assert!(is_as_before(&list), "{list}");

    // While the storage refuses changes, reads succeed and writes fail.
    for (method, path, body) in [
        ("POST", all, new.clone()),
        ("DELETE", &one("first"), Vec::new()),
    ] {
        let (code, response) = h.raw(method, path, json_type, body).await;
        assert_eq!(
            (code, &response["reason"]),
            (507, &json!("InsufficientStorage")),
            "{response}"
        );
    }
    let (code, list) = h.raw("GET", all, json_type, Vec::new()).await;
    assert_eq!(code, 200);
    assert!(is_as_before(&list), "{list}");
    assert_eq!(list["items"][0]["data"]["a"], "b");
    let gadget = "/apis/test.example.com/v1/namespaces/default/gadgets";
    assert_eq!(h.raw("GET", gadget, json_type, Vec::new()).await.0, 404);

    // After the storage recovers, the same watches continue.
    storage.repair();
    create("second").await.unwrap();
    assert_eq!(next_of(&mut events).await, "added second");
    let labels = Patch::Merge(json!({"metadata": {"labels": {"colour": "none"}}}));
    maps.patch("deleted", &PatchParams::default(), &labels)
        .await
        .unwrap();
    assert_eq!(next_of(&mut events).await, "modified deleted");
    assert_eq!(next_of(&mut quiet).await, "added deleted");
    let (_, response) = h
        .raw("POST", definitions, json_type, gadgets.to_string().into())
        .await;
    assert_eq!(response["kind"], "CustomResourceDefinition", "{response}");
    assert_eq!(h.raw("GET", gadget, json_type, Vec::new()).await.0, 200);
}

#[tokio::test]
async fn background_work_resumes_after_a_storage_failure() {
    let (storage, h) = with_controlled_storage().await;
    let namespaces: Api<Namespace> = Api::all(h.client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": "going"}})).unwrap();
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(h.client.clone(), "going");
    let params = PostParams::default();
    maps.create(&params, &config_map("inside")).await.unwrap();
    let before = *storage.taken().borrow();
    // The deletion of the namespace is durable. The deletion of the object in the namespace is not durable.
    storage.persist_up_to(before + 1);
    let delete = DeleteParams::default();
    let uid = namespaces.delete("going", &delete).await.unwrap();
    let uid = uid.left().unwrap().metadata.uid.unwrap();
    storage.until_ahead_of(before + 1).await;
    storage.fail("full");
    maps.get("inside").await.unwrap();
    storage.repair();
    let gone = await_condition(namespaces, "going", conditions::is_deleted(&uid));
    tokio::time::timeout(TIMEOUT, gone).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_folder_in_use_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let first = start_in(home.path(), None).await;
    let refused = DataDir::open(home.path(), Durability::ProcessEnd).unwrap_err();
    assert!(refused.to_string().contains("is in use"), "{refused}");
    Server::shutdown(first.server).await;
    DataDir::open(home.path(), Durability::ProcessEnd).unwrap();
}

#[tokio::test]
async fn an_allocated_node_port_survives_a_restart() {
    let service = |name: &str| -> Service {
        let ports = json!([{"port": 80, "nodePort": 30_123}]);
        let spec = json!({"type": "NodePort", "ports": ports});
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
    };
    let home = tempfile::tempdir().unwrap();
    let before = start_in(home.path(), None).await;
    let services: Api<Service> = Api::default_namespaced(before.client.clone());
    let parameters = PostParams::default();
    services.create(&parameters, &service("one")).await.unwrap();
    before.server.shutdown().await;

    let after = start_in(home.path(), None).await;
    let services: Api<Service> = Api::default_namespaced(after.client.clone());
    let refused = services.create(&parameters, &service("two")).await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("provided port is already allocated"),
        "{refused}"
    );
    services
        .delete("one", &DeleteParams::default())
        .await
        .unwrap();
    services.create(&parameters, &service("two")).await.unwrap();
}
