//! Conversion of kube-scheduler's configuration files (kind `KubeSchedulerConfiguration`) to
//! [`SchedulerConfiguration`].
//!
//! The conversion accepts every version of the group `kubescheduler.config.k8s.io`. It ignores fields and plugins that
//! have no counterpart in Berth, and logs a warning with the position of each. It keeps unknown plugin names, because
//! the later validation of profiles rejects them.

use serde_json::{Map, Value, json};

use super::configuration::{POINTS, SchedulerConfiguration};
use super::document::{ConfigError, Document};

const GROUP: &str = "kubescheduler.config.k8s.io/";
const KIND: &str = "KubeSchedulerConfiguration";

/// The plugins of kube-scheduler, up to version 1.35, that decide about nodes and pods. The list excludes the names of
/// plugins that Berth has, too, such as `TaintToleration`.
const NODE_PLUGINS: &[&str] = &[
    "AzureDiskLimits",
    "CinderLimits",
    "DefaultBinder",
    "DefaultPodTopologySpread",
    "DynamicResources",
    "EBSLimits",
    "GCEPDLimits",
    "GangScheduling",
    "ImageLocality",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeDeclaredFeatures",
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

const TOP_LEVEL: &[&str] = &[
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

/// Parses a configuration of Berth or of kube-scheduler.
///
/// # Errors
/// If the document is of another kind, or does not match the types.
pub(crate) fn read(document: &Document) -> Result<SchedulerConfiguration, ConfigError> {
    let (configuration, ignored) = converted(document)?;
    for warning in ignored {
        tracing::warn!("{warning}");
    }
    Ok(configuration)
}

/// Returns the configuration, and warnings about ignored parts and about extenders.
fn converted(
    document: &Document,
) -> Result<(SchedulerConfiguration, Vec<ConfigError>), ConfigError> {
    let mut value = document.value();
    let version = value.get("apiVersion").and_then(Value::as_str);
    if !version.is_some_and(|version| version.starts_with(GROUP)) || value["kind"] != KIND {
        return Ok((document.parse()?, Vec::new()));
    }
    check_extenders(document, &value)?;
    let mut conversion = Conversion {
        document,
        ignored: Vec::new(),
    };
    if let Some(fields) = value.as_object_mut() {
        conversion.top_level(fields);
    }
    Ok((document.parse_value(value)?, conversion.ignored))
}

/// Refuses extenders with `managedResources`. In kube-scheduler, such an extender is called only for pods that request one
/// of these resources. Without the field it would be called for all bindings, and could filter clusters of workloads
/// that it does not know.
fn check_extenders(document: &Document, value: &Value) -> Result<(), ConfigError> {
    let extenders = value.get("extenders").and_then(Value::as_array);
    for (index, extender) in extenders.into_iter().flatten().enumerate() {
        let managed = extender.get("managedResources").and_then(Value::as_array);
        if managed.is_some_and(|managed| !managed.is_empty()) {
            return Err(document.error(
                &format!("extenders[{index}].managedResources"),
                "names resources of pods, and an extender receives bindings; remove it to call the extender for all \
                 bindings, or write a SchedulerConfiguration whose managedResources name apiVersion and kind",
            ));
        }
    }
    Ok(())
}

struct Conversion<'a> {
    document: &'a Document,
    ignored: Vec<ConfigError>,
}

impl Conversion<'_> {
    fn warn(&mut self, path: &str, message: &str) {
        self.ignored.push(self.document.error(path, message));
    }

    /// Removes the unknown fields, and adds a warning about each.
    fn retain(&mut self, fields: &mut Map<String, Value>, path: &str, known: &[&str]) {
        let unknown: Vec<String> = fields
            .keys()
            .filter(|name| !known.contains(&name.as_str()))
            .cloned()
            .collect();
        for name in unknown {
            fields.remove(&name);
            self.warn(&below(path, &name), "has no meaning here and is ignored");
        }
    }

    fn top_level(&mut self, fields: &mut Map<String, Value>) {
        fields.insert(
            "apiVersion".to_owned(),
            json!("scheduler.config.berth/v1alpha1"),
        );
        fields.insert("kind".to_owned(), json!("SchedulerConfiguration"));
        rename(fields, "healthzBindAddress", "healthProbeBindAddress");
        move_into_profile(fields);
        self.retain(fields, "", TOP_LEVEL);
        if let Some(election) = object(fields, "leaderElection") {
            self.election(election);
        }
        if let Some(connection) = object(fields, "clientConnection") {
            self.retain(connection, "clientConnection", CLIENT_CONNECTION);
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
        self.retain(election, "leaderElection", LEADER_ELECTION);
        let lock = election.get("resourceLock").and_then(Value::as_str);
        if lock.is_some_and(|lock| lock != "leases") {
            election.remove("resourceLock");
            self.warn(
                "leaderElection.resourceLock",
                "is ignored: only leases are supported",
            );
        }
    }

    fn profile(&mut self, profile: &mut Map<String, Value>, path: &str) {
        self.retain(profile, path, PROFILE);
        if let Some(points) = object(profile, "plugins") {
            let path = below(path, "plugins");
            let mut known: Vec<&str> = POINTS.iter().map(|(_, name)| *name).collect();
            known.push("multiPoint");
            self.retain(points, &path, &known);
            for (point, lists) in points.iter_mut() {
                let Some(lists) = lists.as_object_mut() else {
                    continue;
                };
                let path = below(&path, point);
                self.retain(lists, &path, &["enabled", "disabled"]);
                for list in ["enabled", "disabled"] {
                    self.plugins(lists, list, &below(&path, list));
                }
            }
        }
        self.plugins(profile, "pluginConfig", &below(path, "pluginConfig"));
    }

    /// Removes the plugins of [`NODE_PLUGINS`] from a list. Also removes entries whose arguments have a type of
    /// kube-scheduler. Adds a warning about each removed entry.
    fn plugins(&mut self, fields: &mut Map<String, Value>, list: &str, path: &str) {
        let Some(plugins) = fields.get_mut(list).and_then(Value::as_array_mut) else {
            return;
        };
        let mut index = 0;
        plugins.retain(|plugin| {
            let name = plugin["name"].as_str().unwrap_or_default();
            let version = plugin.pointer("/args/apiVersion").and_then(Value::as_str);
            let foreign = version.is_some_and(|version| version.starts_with(GROUP));
            let keep = !foreign && !NODE_PLUGINS.contains(&name);
            if !keep {
                let message =
                    format!("{name} of kube-scheduler has no meaning here and is ignored");
                self.warn(&format!("{path}[{index}]"), &message);
            }
            index += 1;
            keep
        });
    }

    fn extender(&mut self, extender: &mut Map<String, Value>, path: &str) {
        rename(extender, "nodeCacheCapable", "clusterCacheCapable");
        self.retain(extender, path, EXTENDER);
        self.warn(
            path,
            "receives bindings and clusters, not pods and nodes: see docs/extenders.md for an adapter",
        );
    }
}

/// Moves the fields of a profile from the top level, where `v1alpha1` has them, to the list of profiles.
fn move_into_profile(fields: &mut Map<String, Value>) {
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
mod tests;
