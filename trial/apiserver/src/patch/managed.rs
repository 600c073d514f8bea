//! Field ownership: the entries of `metadata.managedFields`. An object without entries is untracked.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::fields::{self, Difference, Fields};
use crate::clock;
use crate::resource::{Resource, Subresource};
use crate::schema::Schema;

/// The kind of the writes that an entry records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Apply,
    Update,
}

/// An entry of `managedFields`: the fields that one manager owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) manager: String,
    pub(crate) mode: Mode,
    pub(crate) api_version: String,
    pub(crate) subresource: String,
    /// The time of the last change, possibly empty.
    pub(crate) time: String,
    pub(crate) fields: Fields,
}

impl Entry {
    fn parse(value: &Value) -> Option<Self> {
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        Some(Self {
            manager: text("manager"),
            mode: if value["operation"].as_str()? == "Apply" {
                Mode::Apply
            } else {
                Mode::Update
            },
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            time: text("time"),
            fields: Fields::parse(&value["fieldsV1"]),
        })
    }

    fn json(&self) -> Value {
        let mut value = json!({
            "manager": self.manager,
            "operation": if self.mode == Mode::Apply { "Apply" } else { "Update" },
            "apiVersion": self.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.to_v1(),
        });
        if !self.time.is_empty() {
            value["time"] = json!(self.time);
        }
        if !self.subresource.is_empty() {
            value["subresource"] = json!(self.subresource);
        }
        value
    }

    /// Reports whether two entries have the same manager, mode and subresource, and the same API version unless both
    /// record an apply.
    pub(crate) fn same_writer(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.mode == other.mode
            && self.subresource == other.subresource
            && (self.mode == Mode::Apply || self.api_version == other.api_version)
    }
}

/// Returns the entries of an object.
pub(crate) fn parse(object: &Value) -> Vec<Entry> {
    let list = object["metadata"]["managedFields"].as_array();
    list.map(|l| l.iter().filter_map(Entry::parse).collect())
        .unwrap_or_default()
}

/// Writes the entries that own fields into `metadata.managedFields`. Entries of server-side apply come first. Entries
/// of each mode are sorted by time.
pub(crate) fn store(object: &mut Value, entries: &[Entry]) {
    let mut kept: Vec<&Entry> = entries.iter().filter(|e| !e.fields.is_empty()).collect();
    kept.sort_by_key(|e| {
        let updates = e.mode == Mode::Update;
        (updates, &e.time, &e.manager, &e.api_version, &e.subresource)
    });
    let list: Vec<Value> = kept.into_iter().map(Entry::json).collect();
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    if let Some(meta) = object["metadata"].as_object_mut() {
        if list.is_empty() {
            meta.remove("managedFields");
        } else {
            meta.insert("managedFields".into(), Value::Array(list));
        }
    }
}

/// Metadata that identifies the object, or that the server sets. No entry contains these fields.
const SYSTEM: &[&str] = &[
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "selfLink",
];

/// Returns an object without the fields that entries never contain.
pub(crate) fn tracked(object: &Value) -> Value {
    let mut out = Map::new();
    for (key, value) in object.as_object().into_iter().flatten() {
        match (key.as_str(), value) {
            ("apiVersion" | "kind", _) | ("metadata", Value::Null) => {}
            ("metadata", Value::Object(meta)) => {
                let kept: Map<String, Value> = meta
                    .iter()
                    .filter(|(k, _)| !SYSTEM.contains(&k.as_str()))
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect();
                if !kept.is_empty() {
                    out.insert(key.clone(), Value::Object(kept));
                }
            }
            // The server itself writes an empty status, so an entry never contains it.
            ("status", Value::Object(status)) if status.is_empty() => {}
            _ => drop(out.insert(key.clone(), value.clone())),
        }
    }
    Value::Object(out)
}

/// Returns the set of the fields that entries can contain for an object.
pub(crate) fn fields_of(object: &Value, schema: &Schema) -> Fields {
    let mut fields = fields::of(&tracked(object), Some(schema));
    fields.owned = false;
    fields
}

/// Returns a new entry, without fields, for the manager of a request.
pub(crate) fn writer(
    resource: &Resource,
    manager: &str,
    mode: Mode,
    subresource: Option<Subresource>,
) -> Entry {
    Entry {
        manager: manager.chars().take(128).collect(),
        mode,
        api_version: resource.api_version(),
        subresource: subresource.map(|s| s.name().to_owned()).unwrap_or_default(),
        // The entry of a write through `scale` has no time.
        time: match subresource {
            Some(Subresource::Scale) => String::new(),
            _ => clock::now(),
        },
        fields: Fields::default(),
    }
}

/// Returns the base for the comparison with a new object. The base contains the fields that the server adds to every
/// new object of some kind, so these fields get no owner.
fn blank(resource: &Resource) -> Value {
    if resource.is_custom() {
        return json!({});
    }
    let template = || json!({"metadata": {}, "spec": {"containers": null}});
    let mut spec = json!({
        "strategy": {}, "updateStrategy": {}, "resources": {}, "scaleTargetRef": {}, "names": {},
        "podSelector": {}, "containers": null, "limits": null, "serviceName": "",
        "jobTemplate": {"metadata": {}, "spec": {"template": template()}},
    });
    if resource.plural != "replicationcontrollers" {
        spec["template"] = template();
    }
    json!({
        "metadata": {}, "spec": spec, "template": template(), "roleRef": {}, "rules": null, "endpoints": null, "ports": null,
        "involvedObject": {}, "source": {}, "firstTimestamp": null, "lastTimestamp": null, "eventTime": null,
        "reportingComponent": "", "reportingInstance": "",
        "regarding": {}, "deprecatedSource": {}, "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null,
    })
}

/// The manager of the fields that an untracked object has before its first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Returns an untracked object with an entry that owns its fields. Returns a tracked object unchanged.
pub(crate) fn adopted<'a>(resource: &Resource, object: &'a Value) -> Cow<'a, Value> {
    if !parse(object).is_empty() {
        return Cow::Borrowed(object);
    }
    let mut owner = writer(resource, BEFORE_FIRST_APPLY, Mode::Update, None);
    owner.fields = compared(resource, None, None, object).changed;
    let mut object = object.clone();
    store(&mut object, &[owner]);
    Cow::Owned(object)
}

/// Returns the difference between `old` and `new`. A new object is compared with [`blank`]. If `subresource` is `None`,
/// the write is on the main resource, and the status is not compared.
fn compared(
    resource: &Resource,
    subresource: Option<Subresource>,
    old: Option<&Value>,
    new: &Value,
) -> Difference {
    let mut before = old.map_or_else(|| blank(resource), tracked);
    let mut after = tracked(new);
    for side in [&mut before, &mut after] {
        let Some(object) = side.as_object_mut() else {
            continue;
        };
        // An absent `metadata` equals an empty one, and so does an absent `status` of a built-in kind.
        object.entry("metadata").or_insert_with(|| json!({}));
        if subresource.is_none() && resource.status {
            // Only a write through the status subresource changes the status.
            object.remove("status");
        } else if resource.status && !resource.is_custom() {
            object.entry("status").or_insert_with(|| json!({}));
        }
    }
    let mut difference = fields::difference(Some(&before), Some(&after), Some(resource.schema()));
    difference.changed.owned = false;
    difference.removed.owned = false;
    difference
}

/// Reports whether a set contains a dotted path.
fn owns(fields: &Fields, path: &str) -> bool {
    let found = path
        .split('.')
        .try_fold(fields, |f, step| f.at(&format!("f:{step}")));
    found.is_some_and(|found| found.owned)
}

/// Records a write other than an apply. The writer becomes the owner of the changed fields. An untracked object stays
/// untracked until its first apply.
pub(crate) fn record(
    resource: &Resource,
    subresource: Option<Subresource>,
    manager: &str,
    old: Option<&Value>,
    new: &mut Value,
) {
    let mut entries = old.map(parse).unwrap_or_default();
    let sent = new["metadata"]["managedFields"].as_array();
    let reset = sent.is_some_and(|sent| sent.iter().all(|entry| *entry == json!({})));
    if old.is_some() && (reset || entries.is_empty()) {
        store(new, &[]);
        return;
    }
    let mut mine = writer(resource, manager, Mode::Update, subresource);
    let mut difference = compared(resource, subresource, old, new);
    if subresource == Some(Subresource::Scale) {
        let path = resource.scale.as_ref().map_or("", |s| &s.spec);
        // A write through `scale` becomes the owner of the replicas only if the replicas already have an owner.
        if !entries.iter().any(|entry| owns(&entry.fields, path)) {
            difference = Difference::default();
        }
        // In a Scale, zero replicas equal absent replicas.
        if path.split('.').fold(&*new, |v, step| &v[step]) == 0 {
            difference.removed.union(&difference.changed);
            difference.changed = Fields::default();
        }
    }
    if difference.changed.is_empty() && difference.removed.is_empty() {
        match old.and_then(|o| o["metadata"].get("managedFields")) {
            Some(entries) => new["metadata"]["managedFields"] = entries.clone(),
            None => store(new, &[]),
        }
        return;
    }
    for entry in &mut entries {
        entry.fields.subtract(&difference.removed);
        if !entry.same_writer(&mine) {
            entry.fields.subtract(&difference.changed);
        }
    }
    mine.fields = difference.changed;
    match entries.iter_mut().find(|e| e.same_writer(&mine)) {
        Some(entry) => {
            entry.fields.union(&mine.fields);
            entry.time = mine.time;
        }
        None => entries.push(mine),
    }
    store(new, &entries);
}

/// Reports whether two lists of entries differ at most in their times.
pub(crate) fn equal_except_times(a: &Value, b: &Value) -> bool {
    if a == b {
        return true;
    }
    let (Some(a), Some(b)) = (a.as_array(), b.as_array()) else {
        return false;
    };
    let keys = [
        "manager",
        "operation",
        "apiVersion",
        "subresource",
        "fieldsV1",
    ];
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|(x, y)| keys.iter().all(|k| x[*k] == y[*k]))
}
