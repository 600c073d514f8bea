//! `KubeSchedulerConfiguration` files: what users of kube-scheduler have written already.
//!
//! Every version of `kubescheduler.config.k8s.io` is read. What has a meaning here is taken over; anything else is logged
//! once, by name and place, and left out. Names of plugins that neither kube-scheduler nor Berth has stay, and are
//! refused later like those of any other file.

use serde_json::{Map, Value, json};

use super::configuration::{POINTS, SchedulerConfiguration};
use super::document::{ConfigError, Document};

const GROUP: &str = "kubescheduler.config.k8s.io/";
const KIND: &str = "KubeSchedulerConfiguration";

/// Plugins of kube-scheduler, of all versions, that decide on nodes and pods. Those that Berth has, too, are not here.
const FOR_NODES: &[&str] = &[
    "AzureDiskLimits",
    "CinderLimits",
    "DefaultBinder",
    "DefaultPodTopologySpread",
    "DynamicResources",
    "EBSLimits",
    "GCEPDLimits",
    "ImageLocality",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeLabel",
    "NodeName",
    "NodePorts",
    "NodePreferAvoidPods",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "NodeResourcesLeastAllocated",
    "NodeResourcesLimits",
    "NodeResourcesMostAllocated",
    "NodeUnschedulable",
    "NodeVolumeLimits",
    "PodTopologySpread",
    "RequestedToCapacityRatio",
    "SchedulingGates",
    "SelectorSpread",
    "ServiceAffinity",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
];

const TOP: &[&str] = &[
    "apiVersion",
    "kind",
    "leaderElection",
    "clientConnection",
    "healthProbeBindAddress",
    "metricsBindAddress",
    "profiles",
    "extenders",
];
const LEADER_ELECTION: &[&str] = &[
    "leaderElect",
    "leaseDuration",
    "renewDeadline",
    "retryPeriod",
    "resourceLock",
    "resourceName",
    "resourceNamespace",
];
const CLIENT_CONNECTION: &[&str] = &["kubeconfig", "qps", "burst"];
const PROFILE: &[&str] = &["schedulerName", "plugins", "pluginConfig"];
const EXTENDER: &[&str] = &[
    "urlPrefix",
    "filterVerb",
    "prioritizeVerb",
    "preemptVerb",
    "bindVerb",
    "weight",
    "enableHTTPS",
    "tlsConfig",
    "httpTimeout",
    "clusterCacheCapable",
    "ignorable",
];

/// Reads a configuration, of kube-scheduler or of our own.
///
/// # Errors
/// When the document is neither, or has another shape.
pub(crate) fn read(document: &Document) -> Result<SchedulerConfiguration, ConfigError> {
    let (configuration, left_out) = translated(document)?;
    for one in left_out {
        tracing::warn!("{one}");
    }
    Ok(configuration)
}

/// The configuration, and what of the document was left out.
fn translated(
    document: &Document,
) -> Result<(SchedulerConfiguration, Vec<ConfigError>), ConfigError> {
    let mut value = document.value();
    let version = value.get("apiVersion").and_then(Value::as_str);
    if !version.is_some_and(|version| version.starts_with(GROUP)) || value["kind"] != KIND {
        return Ok((document.parse()?, Vec::new()));
    }
    let mut translation = Translation {
        document,
        left_out: Vec::new(),
    };
    if let Some(fields) = value.as_object_mut() {
        translation.top(fields);
    }
    Ok((document.parse_value(value)?, translation.left_out))
}

struct Translation<'a> {
    document: &'a Document,
    left_out: Vec<ConfigError>,
}

impl Translation<'_> {
    fn leave_out(&mut self, path: &str, why: &str) {
        self.left_out.push(self.document.error(path, why));
    }

    /// Leaves out the fields that have no meaning here.
    fn keep(&mut self, fields: &mut Map<String, Value>, path: &str, known: &[&str]) {
        let unknown: Vec<String> = fields
            .keys()
            .filter(|name| !known.contains(&name.as_str()))
            .cloned()
            .collect();
        for name in unknown {
            fields.remove(&name);
            self.leave_out(&below(path, &name), "has no meaning here and is ignored");
        }
    }

    fn top(&mut self, fields: &mut Map<String, Value>) {
        fields.insert(
            "apiVersion".to_owned(),
            json!("scheduler.config.berth/v1alpha1"),
        );
        fields.insert("kind".to_owned(), json!("SchedulerConfiguration"));
        rename(fields, "healthzBindAddress", "healthProbeBindAddress");
        lone_profile(fields);
        self.keep(fields, "", TOP);
        if let Some(election) = object(fields, "leaderElection") {
            self.election(election);
        }
        if let Some(connection) = object(fields, "clientConnection") {
            self.keep(connection, "clientConnection", CLIENT_CONNECTION);
        }
        for (index, profile) in objects(fields, "profiles") {
            self.profile(profile, &format!("profiles[{index}]"));
        }
        for (index, extender) in objects(fields, "extenders") {
            self.extender(extender, &format!("extenders[{index}]"));
        }
    }

    fn election(&mut self, election: &mut Map<String, Value>) {
        rename(election, "lockObjectName", "resourceName");
        rename(election, "lockObjectNamespace", "resourceNamespace");
        self.keep(election, "leaderElection", LEADER_ELECTION);
        let lock = election.get("resourceLock").and_then(Value::as_str);
        if lock.is_some_and(|lock| lock != "leases") {
            election.remove("resourceLock");
            self.leave_out(
                "leaderElection.resourceLock",
                "there are leases only, and one is used",
            );
        }
    }

    fn profile(&mut self, profile: &mut Map<String, Value>, path: &str) {
        self.keep(profile, path, PROFILE);
        if let Some(points) = object(profile, "plugins") {
            let path = below(path, "plugins");
            let mut known: Vec<&str> = POINTS.iter().map(|(_, name)| *name).collect();
            known.push("multiPoint");
            self.keep(points, &path, &known);
            for (point, lists) in points.iter_mut() {
                let Some(lists) = lists.as_object_mut() else {
                    continue;
                };
                let path = below(&path, point);
                self.keep(lists, &path, &["enabled", "disabled"]);
                for list in ["enabled", "disabled"] {
                    self.plugins(lists, list, &below(&path, list));
                }
            }
        }
        self.plugins(profile, "pluginConfig", &below(path, "pluginConfig"));
    }

    /// Leaves out the plugins of a list that decide on nodes, and arguments that only kube-scheduler's plugins take.
    fn plugins(&mut self, fields: &mut Map<String, Value>, list: &str, path: &str) {
        let Some(plugins) = fields.get_mut(list).and_then(Value::as_array_mut) else {
            return;
        };
        let mut index = 0;
        plugins.retain(|plugin| {
            let name = plugin["name"].as_str().unwrap_or_default();
            let version = plugin.pointer("/args/apiVersion").and_then(Value::as_str);
            let foreign = version.is_some_and(|version| version.starts_with(GROUP));
            let keeps = !foreign && !FOR_NODES.contains(&name);
            if !keeps {
                let why = format!("{name} of kube-scheduler has no meaning here and is ignored");
                self.leave_out(&format!("{path}[{index}]"), &why);
            }
            index += 1;
            keeps
        });
    }

    fn extender(&mut self, extender: &mut Map<String, Value>, path: &str) {
        rename(extender, "nodeCacheCapable", "clusterCacheCapable");
        self.keep(extender, path, EXTENDER);
        self.leave_out(
            path,
            "is sent bindings and clusters, not pods and nodes: see docs/extenders.md for an adapter",
        );
    }
}

/// In `v1alpha1` the file itself was the one profile.
fn lone_profile(fields: &mut Map<String, Value>) {
    if fields.contains_key("profiles") {
        return;
    }
    let mut profile = Map::new();
    for name in PROFILE {
        if let Some(value) = fields.remove(*name) {
            profile.insert((*name).to_owned(), value);
        }
    }
    if !profile.is_empty() {
        fields.insert("profiles".to_owned(), json!([profile]));
    }
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn rename(fields: &mut Map<String, Value>, old: &str, new: &str) {
    if let Some(value) = fields.remove(old) {
        fields.entry(new).or_insert(value);
    }
}

fn object<'a>(
    fields: &'a mut Map<String, Value>,
    name: &str,
) -> Option<&'a mut Map<String, Value>> {
    fields.get_mut(name)?.as_object_mut()
}

fn objects<'a>(
    fields: &'a mut Map<String, Value>,
    name: &str,
) -> impl Iterator<Item = (usize, &'a mut Map<String, Value>)> {
    let list = fields.get_mut(name).and_then(Value::as_array_mut);
    let items = list.into_iter().flatten().enumerate();
    items.filter_map(|(index, item)| Some((index, item.as_object_mut()?)))
}

#[cfg(test)]
#[path = "kube_scheduler_tests.rs"]
mod tests;
