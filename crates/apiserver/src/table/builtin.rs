//! The columns of the built-in kinds.

use serde_json::{Value, json};

use super::{BuiltinColumn, age, since};

const fn text(name: &'static str, cell: fn(&Value) -> Value) -> BuiltinColumn {
    BuiltinColumn {
        name,
        kind: "string",
        priority: 0,
        cell,
    }
}

const fn number(name: &'static str, cell: fn(&Value) -> Value) -> BuiltinColumn {
    BuiltinColumn {
        name,
        kind: "integer",
        priority: 0,
        cell,
    }
}

const fn wide(name: &'static str, cell: fn(&Value) -> Value) -> BuiltinColumn {
    BuiltinColumn {
        name,
        kind: "string",
        priority: 1,
        cell,
    }
}

const AGE: BuiltinColumn = text("Age", age);

fn or(value: &Value, otherwise: &str) -> Value {
    match value.as_str() {
        Some(s) if !s.is_empty() => json!(s),
        _ => json!(otherwise),
    }
}

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

fn count(value: &Value) -> Value {
    json!(value.as_object().map_or_else(
        || value.as_array().map_or(0, Vec::len),
        serde_json::Map::len
    ))
}

fn joined(list: &Value, each: impl Fn(&Value) -> String, otherwise: &str) -> Value {
    let items: Vec<String> = list
        .as_array()
        .map(|l| l.iter().map(each).collect())
        .unwrap_or_default();
    if items.is_empty() {
        json!(otherwise)
    } else {
        json!(items.join(","))
    }
}

fn string(value: &Value) -> String {
    value.as_str().map_or_else(
        || {
            if value.is_null() {
                String::new()
            } else {
                value.to_string()
            }
        },
        str::to_owned,
    )
}

fn labels(map: &Value) -> String {
    map.as_object()
        .map(|m| {
            m.iter()
                .map(|(k, v)| format!("{k}={}", string(v)))
                .collect::<Vec<_>>()
                .join(",")
        })
        .unwrap_or_default()
}

/// A label selector on one line.
pub(crate) fn selector(selector: &Value) -> String {
    let mut parts: Vec<String> = Vec::new();
    let simple = labels(&selector["matchLabels"]);
    if !simple.is_empty() {
        parts.push(simple);
    }
    for e in selector["matchExpressions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
    {
        let key = string(&e["key"]);
        let values = string(&joined(&e["values"], string, ""));
        parts.push(match e["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key,
        });
    }
    if parts.is_empty() {
        "<none>".to_owned()
    } else {
        parts.join(",")
    }
}

fn pod_spec(object: &Value) -> &Value {
    &object["spec"]["template"]["spec"]
}

fn containers(o: &Value) -> Value {
    joined(&pod_spec(o)["containers"], |c| string(&c["name"]), "<none>")
}

fn images(o: &Value) -> Value {
    joined(
        &pod_spec(o)["containers"],
        |c| string(&c["image"]),
        "<none>",
    )
}

fn selector_cell(o: &Value) -> Value {
    json!(selector(&o["spec"]["selector"]))
}

fn pod_status(o: &Value) -> Value {
    if !o["metadata"]["deletionTimestamp"].is_null() {
        return json!("Terminating");
    }
    let waiting = o["status"]["containerStatuses"].as_array().and_then(|l| {
        l.iter().find_map(|c| {
            c["state"]["waiting"]["reason"]
                .as_str()
                .or_else(|| c["state"]["terminated"]["reason"].as_str())
        })
    });
    let reason = o["status"]["reason"].as_str();
    json!(
        waiting
            .or(reason)
            .unwrap_or_else(|| o["status"]["phase"].as_str().unwrap_or_default())
    )
}

fn node_status(o: &Value) -> Value {
    let ready = o["status"]["conditions"]
        .as_array()
        .and_then(|l| l.iter().find(|c| c["type"] == "Ready"))
        .map_or("Unknown", |c| {
            if c["status"] == "True" {
                "Ready"
            } else {
                "NotReady"
            }
        });
    let fenced = if o["spec"]["unschedulable"] == true {
        ",SchedulingDisabled"
    } else {
        ""
    };
    json!(format!("{ready}{fenced}"))
}

fn node_roles(o: &Value) -> Value {
    let prefix = "node-role.kubernetes.io/";
    let roles: Vec<&str> = o["metadata"]["labels"]
        .as_object()
        .map(|m| m.keys().filter_map(|k| k.strip_prefix(prefix)).collect())
        .unwrap_or_default();
    if roles.is_empty() {
        json!("<none>")
    } else {
        json!(roles.join(","))
    }
}

fn node_address(o: &Value, kind: &str) -> Value {
    let found = o["status"]["addresses"]
        .as_array()
        .and_then(|l| l.iter().find(|a| a["type"] == kind));
    found.map_or_else(|| json!("<none>"), |a| a["address"].clone())
}

fn service_ports(o: &Value) -> Value {
    let port = |p: &Value| {
        let node = int(&p["nodePort"]);
        let node = if node > 0 {
            format!(":{node}")
        } else {
            String::new()
        };
        format!(
            "{}{node}/{}",
            int(&p["port"]),
            p["protocol"].as_str().unwrap_or("TCP")
        )
    };
    joined(&o["spec"]["ports"], port, "<none>")
}

fn external_ip(o: &Value) -> Value {
    let address = |i: &Value| string(i.get("ip").unwrap_or_else(|| &i["hostname"]));
    match o["spec"]["type"].as_str() {
        Some("LoadBalancer") => joined(
            &o["status"]["loadBalancer"]["ingress"],
            address,
            "<pending>",
        ),
        Some("ExternalName") => o["spec"]["externalName"].clone(),
        _ => joined(&o["spec"]["externalIPs"], string, "<none>"),
    }
}

fn ready_of(o: &Value) -> Value {
    json!(format!(
        "{}/{}",
        int(&o["status"]["readyReplicas"]),
        int(&o["spec"]["replicas"])
    ))
}

fn job_status(o: &Value) -> Value {
    let has = |kind: &str| {
        o["status"]["conditions"]
            .as_array()
            .is_some_and(|l| l.iter().any(|c| c["type"] == kind && c["status"] == "True"))
    };
    json!(match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if has("Suspended") => "Suspended",
        () if !o["metadata"]["deletionTimestamp"].is_null() => "Terminating",
        () => "Running",
    })
}

fn job_duration(o: &Value) -> Value {
    match (
        o["status"]["startTime"].as_str(),
        o["status"]["completionTime"].as_str(),
    ) {
        (None, _) => json!(""),
        (Some(_), None) => since(&o["status"]["startTime"]),
        (Some(start), Some(end)) => {
            let (start, end) = (
                crate::clock::seconds_since(start),
                crate::clock::seconds_since(end),
            );
            json!(crate::clock::human_duration(
                start.unwrap_or(0) - end.unwrap_or(0)
            ))
        }
    }
}

fn ingress_hosts(o: &Value) -> Value {
    joined(
        &o["spec"]["rules"],
        |r| r["host"].as_str().unwrap_or("*").to_owned(),
        "*",
    )
}

fn event_object(o: &Value) -> Value {
    let involved = &o["involvedObject"];
    json!(format!(
        "{}/{}",
        string(&involved["kind"]).to_lowercase(),
        string(&involved["name"])
    ))
}

fn event_last_seen(o: &Value) -> Value {
    let times = [
        &o["series"]["lastObservedTime"],
        &o["lastTimestamp"],
        &o["eventTime"],
        &o["firstTimestamp"],
    ];
    since(
        times
            .into_iter()
            .find(|t| t.is_string())
            .unwrap_or_else(|| &o["metadata"]["creationTimestamp"]),
    )
}

fn role_ref(o: &Value) -> Value {
    json!(format!(
        "{}/{}",
        string(&o["roleRef"]["kind"]),
        string(&o["roleRef"]["name"])
    ))
}

fn hpa_targets(o: &Value) -> Value {
    let target = |m: &Value| {
        let (name, t) = (string(&m["resource"]["name"]), &m["resource"]["target"]);
        let wanted = t["averageUtilization"]
            .as_i64()
            .map_or_else(|| string(&t["averageValue"]), |p| format!("{p}%"));
        format!("{name}: <unknown>/{wanted}")
    };
    joined(&o["spec"]["metrics"], target, "<none>")
}

/// Who reported an event, and where it runs.
fn event_source(object: &Value) -> Value {
    let source = &object["source"];
    let component = match string(&source["component"]) {
        none if none.is_empty() => string(&object["reportingComponent"]),
        component => component,
    };
    let host = string(&source["host"]);
    json!(if host.is_empty() {
        component
    } else {
        format!("{component}, {host}")
    })
}

/// The subjects of one kind that a binding names.
fn subjects(object: &Value, kind: &str) -> Value {
    let named: Vec<String> = object["subjects"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|s| s["kind"] == kind)
        .map(|s| match s["namespace"].as_str() {
            Some(namespace) => format!("{namespace}/{}", string(&s["name"])),
            None => string(&s["name"]),
        })
        .collect();
    json!(named.join(", "))
}

/// One field of the containers of a pod spec.
fn of_containers(spec: &Value, field: &str) -> Value {
    joined(&spec["containers"], |c| string(&c[field]), "")
}

/// The first few addresses of an endpoints object.
fn endpoints(object: &Value) -> Value {
    const SHOWN: usize = 3;
    let mut all = Vec::new();
    for subset in object["subsets"].as_array().into_iter().flatten() {
        for port in subset["ports"].as_array().into_iter().flatten() {
            for address in subset["addresses"].as_array().into_iter().flatten() {
                all.push(format!(
                    "{}:{}",
                    string(&address["ip"]),
                    string(&port["port"])
                ));
            }
        }
    }
    if all.is_empty() {
        return json!("<none>");
    }
    let more = all.len().saturating_sub(SHOWN);
    all.truncate(SHOWN);
    let shown = all.join(",");
    json!(if more > 0 {
        format!("{shown} + {more} more...")
    } else {
        shown
    })
}

/// The columns after the name.
#[expect(clippy::too_many_lines, reason = "a table of columns")]
pub(crate) fn builtin_columns(group: &str, plural: &str) -> &'static [BuiltinColumn] {
    match (group, plural) {
        ("", "namespaces") => const { &[text("Status", |o| o["status"]["phase"].clone()), AGE] },
        ("", "configmaps") => {
            const {
                &[
                    number("Data", |o| {
                        json!(int(&count(&o["data"])) + int(&count(&o["binaryData"])))
                    }),
                    AGE,
                ]
            }
        }
        ("", "secrets") => {
            const {
                &[
                    text("Type", |o| o["type"].clone()),
                    number("Data", |o| count(&o["data"])),
                    AGE,
                ]
            }
        }
        ("", "services") => {
            const {
                &[
                    text("Type", |o| o["spec"]["type"].clone()),
                    text("Cluster-IP", |o| or(&o["spec"]["clusterIP"], "<none>")),
                    text("External-IP", external_ip),
                    text("Port(s)", service_ports),
                    AGE,
                    wide("Selector", |o| {
                        json!(match labels(&o["spec"]["selector"]) {
                            s if s.is_empty() => "<none>".to_owned(),
                            s => s,
                        })
                    }),
                ]
            }
        }
        ("", "pods") => {
            const {
                &[
                    text("Ready", |o| {
                        let ready = o["status"]["containerStatuses"].as_array();
                        let ready =
                            ready.map_or(0, |l| l.iter().filter(|c| c["ready"] == true).count());
                        json!(format!("{ready}/{}", int(&count(&o["spec"]["containers"]))))
                    }),
                    text("Status", pod_status),
                    text("Restarts", |o| {
                        let all = o["status"]["containerStatuses"].as_array();
                        json!(
                            all.map_or(0, |l| l
                                .iter()
                                .map(|c| int(&c["restartCount"]))
                                .sum::<i64>())
                                .to_string()
                        )
                    }),
                    AGE,
                    wide("IP", |o| or(&o["status"]["podIP"], "<none>")),
                    wide("Node", |o| or(&o["spec"]["nodeName"], "<none>")),
                    wide("Nominated Node", |o| {
                        or(&o["status"]["nominatedNodeName"], "<none>")
                    }),
                    wide("Readiness Gates", |_| json!("<none>")),
                ]
            }
        }
        ("", "nodes") => {
            const {
                &[
                    text("Status", node_status),
                    text("Roles", node_roles),
                    AGE,
                    text("Version", |o| {
                        o["status"]["nodeInfo"]["kubeletVersion"].clone()
                    }),
                    wide("Internal-IP", |o| node_address(o, "InternalIP")),
                    wide("External-IP", |o| node_address(o, "ExternalIP")),
                    wide("OS-Image", |o| {
                        or(&o["status"]["nodeInfo"]["osImage"], "<unknown>")
                    }),
                    wide("Kernel-Version", |o| {
                        or(&o["status"]["nodeInfo"]["kernelVersion"], "<unknown>")
                    }),
                    wide("Container-Runtime", |o| {
                        or(
                            &o["status"]["nodeInfo"]["containerRuntimeVersion"],
                            "<unknown>",
                        )
                    }),
                ]
            }
        }
        ("" | "events.k8s.io", "events") => {
            const {
                &[
                    text("Last Seen", event_last_seen),
                    text("Type", |o| o["type"].clone()),
                    text("Reason", |o| o["reason"].clone()),
                    text("Object", event_object),
                    wide("Subobject", |o| or(&o["involvedObject"]["fieldPath"], "")),
                    wide("Source", event_source),
                    text("Message", |o| json!(string(&o["message"]).trim())),
                    wide("First Seen", |o| {
                        let first = &o["firstTimestamp"];
                        since(if first.is_string() {
                            first
                        } else {
                            &o["eventTime"]
                        })
                    }),
                    wide("Count", |o| json!(int(&o["count"]).max(1).to_string())),
                    wide("Name", |o| o["metadata"]["name"].clone()),
                ]
            }
        }
        ("", "persistentvolumes") => {
            const {
                &[
                    text("Capacity", |o| o["spec"]["capacity"]["storage"].clone()),
                    text("Access Modes", |o| {
                        joined(&o["spec"]["accessModes"], string, "")
                    }),
                    text("Reclaim Policy", |o| {
                        o["spec"]["persistentVolumeReclaimPolicy"].clone()
                    }),
                    text("Status", |o| o["status"]["phase"].clone()),
                    text("Claim", |o| {
                        let claim = &o["spec"]["claimRef"];
                        json!(match claim["name"].as_str() {
                            Some(name) => format!("{}/{name}", string(&claim["namespace"])),
                            None => String::new(),
                        })
                    }),
                    text("StorageClass", |o| or(&o["spec"]["storageClassName"], "")),
                    text("VolumeAttributesClass", |o| {
                        or(&o["spec"]["volumeAttributesClassName"], "<unset>")
                    }),
                    text("Reason", |o| or(&o["status"]["reason"], "")),
                    AGE,
                    wide("VolumeMode", |o| or(&o["spec"]["volumeMode"], "<unset>")),
                ]
            }
        }
        ("", "persistentvolumeclaims") => {
            const {
                &[
                    text("Status", |o| o["status"]["phase"].clone()),
                    text("Volume", |o| or(&o["spec"]["volumeName"], "")),
                    text("Capacity", |o| or(&o["status"]["capacity"]["storage"], "")),
                    text("Access Modes", |o| {
                        joined(&o["status"]["accessModes"], string, "")
                    }),
                    text("StorageClass", |o| or(&o["spec"]["storageClassName"], "")),
                    text("VolumeAttributesClass", |o| {
                        or(&o["spec"]["volumeAttributesClassName"], "<unset>")
                    }),
                    AGE,
                    wide("VolumeMode", |o| or(&o["spec"]["volumeMode"], "<unset>")),
                ]
            }
        }
        ("", "resourcequotas") => {
            const {
                &[
                    text("Request", |o| {
                        let used = &o["status"]["used"];
                        let line = |(k, v): (&String, &Value)| {
                            format!("{k}: {}/{}", string(&used[k]), string(v))
                        };
                        let hard = o["spec"]["hard"].as_object();
                        json!(
                            hard.map(|m| m.iter().map(line).collect::<Vec<_>>().join(", "))
                                .unwrap_or_default()
                        )
                    }),
                    text("Limit", |_| json!("")),
                    AGE,
                ]
            }
        }
        ("", "limitranges") => {
            const {
                &[text("Created At", |o| {
                    o["metadata"]["creationTimestamp"].clone()
                })]
            }
        }
        ("", "replicationcontrollers") | ("apps", "replicasets") => {
            const {
                &[
                    number("Desired", |o| json!(int(&o["spec"]["replicas"]))),
                    number("Current", |o| json!(int(&o["status"]["replicas"]))),
                    number("Ready", |o| json!(int(&o["status"]["readyReplicas"]))),
                    AGE,
                    wide("Containers", containers),
                    wide("Images", images),
                    wide("Selector", selector_cell),
                ]
            }
        }
        ("apps", "deployments") => {
            const {
                &[
                    text("Ready", ready_of),
                    number("Up-to-date", |o| {
                        json!(int(&o["status"]["updatedReplicas"]))
                    }),
                    number("Available", |o| {
                        json!(int(&o["status"]["availableReplicas"]))
                    }),
                    AGE,
                    wide("Containers", containers),
                    wide("Images", images),
                    wide("Selector", selector_cell),
                ]
            }
        }
        ("apps", "statefulsets") => {
            const {
                &[
                    text("Ready", ready_of),
                    AGE,
                    wide("Containers", containers),
                    wide("Images", images),
                ]
            }
        }
        ("apps", "daemonsets") => {
            const {
                &[
                    number("Desired", |o| {
                        json!(int(&o["status"]["desiredNumberScheduled"]))
                    }),
                    number("Current", |o| {
                        json!(int(&o["status"]["currentNumberScheduled"]))
                    }),
                    number("Ready", |o| json!(int(&o["status"]["numberReady"]))),
                    number("Up-to-date", |o| {
                        json!(int(&o["status"]["updatedNumberScheduled"]))
                    }),
                    number("Available", |o| json!(int(&o["status"]["numberAvailable"]))),
                    text("Node Selector", |o| {
                        json!(match labels(&pod_spec(o)["nodeSelector"]) {
                            s if s.is_empty() => "<none>".to_owned(),
                            s => s,
                        })
                    }),
                    AGE,
                    wide("Containers", containers),
                    wide("Images", images),
                    wide("Selector", selector_cell),
                ]
            }
        }
        ("apps", "controllerrevisions") => {
            const {
                &[
                    text("Controller", |o| {
                        let owner = &o["metadata"]["ownerReferences"][0];
                        let kind = string(&owner["kind"]).to_lowercase();
                        json!(if kind.is_empty() {
                            "<none>".to_owned()
                        } else {
                            format!("{kind}/{}", string(&owner["name"]))
                        })
                    }),
                    number("Revision", |o| o["revision"].clone()),
                    AGE,
                ]
            }
        }
        ("batch", "jobs") => {
            const {
                &[
                    text("Status", job_status),
                    text("Completions", |o| {
                        let wanted = o["spec"]["completions"].as_i64().unwrap_or(1);
                        json!(format!("{}/{wanted}", int(&o["status"]["succeeded"])))
                    }),
                    text("Duration", job_duration),
                    AGE,
                    wide("Containers", containers),
                    wide("Images", images),
                    wide("Selector", selector_cell),
                ]
            }
        }
        ("batch", "cronjobs") => {
            const {
                &[
                    text("Schedule", |o| o["spec"]["schedule"].clone()),
                    text("Timezone", |o| or(&o["spec"]["timeZone"], "<none>")),
                    text("Suspend", |o| {
                        json!(if o["spec"]["suspend"] == true {
                            "True"
                        } else {
                            "False"
                        })
                    }),
                    number("Active", |o| count(&o["status"]["active"])),
                    text(
                        "Last Schedule",
                        |o| match &o["status"]["lastScheduleTime"] {
                            Value::Null => json!("<none>"),
                            at => since(at),
                        },
                    ),
                    AGE,
                ]
            }
        }
        ("autoscaling", "horizontalpodautoscalers") => {
            const {
                &[
                    text("Reference", |o| {
                        let target = &o["spec"]["scaleTargetRef"];
                        json!(format!(
                            "{}/{}",
                            string(&target["kind"]),
                            string(&target["name"])
                        ))
                    }),
                    text("Targets", hpa_targets),
                    text("MinPods", |o| {
                        json!(o["spec"]["minReplicas"].as_i64().unwrap_or(1).to_string())
                    }),
                    number("MaxPods", |o| o["spec"]["maxReplicas"].clone()),
                    number("Replicas", |o| json!(int(&o["status"]["currentReplicas"]))),
                    AGE,
                ]
            }
        }
        ("networking.k8s.io", "ingresses") => {
            const {
                &[
                    text("Class", |o| or(&o["spec"]["ingressClassName"], "<none>")),
                    text("Hosts", ingress_hosts),
                    text("Address", |o| {
                        let address =
                            |i: &Value| string(i.get("ip").unwrap_or_else(|| &i["hostname"]));
                        joined(&o["status"]["loadBalancer"]["ingress"], address, "")
                    }),
                    text("Ports", |o| {
                        json!(if o["spec"]["tls"].is_array() {
                            "80, 443"
                        } else {
                            "80"
                        })
                    }),
                    AGE,
                ]
            }
        }
        ("networking.k8s.io", "ingressclasses") => {
            const {
                &[
                    text("Controller", |o| o["spec"]["controller"].clone()),
                    text("Parameters", |o| {
                        or(&o["spec"]["parameters"]["name"], "<none>")
                    }),
                    AGE,
                ]
            }
        }
        ("networking.k8s.io", "networkpolicies") => {
            const {
                &[
                    text("Pod-Selector", |o| {
                        json!(selector(&o["spec"]["podSelector"]))
                    }),
                    AGE,
                ]
            }
        }
        ("policy", "poddisruptionbudgets") => {
            const {
                &[
                    text("Min Available", |o| match &o["spec"]["minAvailable"] {
                        Value::Null => json!("N/A"),
                        v => json!(string(v)),
                    }),
                    text("Max Unavailable", |o| match &o["spec"]["maxUnavailable"] {
                        Value::Null => json!("N/A"),
                        v => json!(string(v)),
                    }),
                    number("Allowed Disruptions", |o| {
                        json!(int(&o["status"]["disruptionsAllowed"]))
                    }),
                    AGE,
                ]
            }
        }
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => {
            const {
                &[text("Created At", |o| {
                    o["metadata"]["creationTimestamp"].clone()
                })]
            }
        }
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            const {
                &[
                    text("Role", role_ref),
                    AGE,
                    wide("Users", |o| subjects(o, "User")),
                    wide("Groups", |o| subjects(o, "Group")),
                    wide("ServiceAccounts", |o| subjects(o, "ServiceAccount")),
                ]
            }
        }
        ("coordination.k8s.io", "leases") => {
            const {
                &[
                    text("Holder", |o| or(&o["spec"]["holderIdentity"], "")),
                    AGE,
                ]
            }
        }
        ("scheduling.k8s.io", "priorityclasses") => {
            const {
                &[
                    number("Value", |o| o["value"].clone()),
                    text("Global-Default", |o| json!(o["globalDefault"] == true)),
                    AGE,
                    text("PreemptionPolicy", |o| {
                        or(&o["preemptionPolicy"], "PreemptLowerPriority")
                    }),
                ]
            }
        }
        ("storage.k8s.io", "storageclasses") => {
            const {
                &[
                    text("Provisioner", |o| o["provisioner"].clone()),
                    text("ReclaimPolicy", |o| or(&o["reclaimPolicy"], "Delete")),
                    text("VolumeBindingMode", |o| {
                        or(&o["volumeBindingMode"], "Immediate")
                    }),
                    text("AllowVolumeExpansion", |o| {
                        json!(o["allowVolumeExpansion"] == true)
                    }),
                    AGE,
                ]
            }
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            const {
                &[text("Created At", |o| {
                    o["metadata"]["creationTimestamp"].clone()
                })]
            }
        }
        ("", "endpoints") => const { &[text("Endpoints", endpoints), AGE] },
        ("", "podtemplates") => {
            const {
                &[
                    text("Containers", |o| {
                        of_containers(&o["template"]["spec"], "name")
                    }),
                    text("Images", |o| of_containers(&o["template"]["spec"], "image")),
                    text("Pod Labels", |o| {
                        let labels = o["template"]["metadata"]["labels"].as_object();
                        let pairs: Vec<String> = labels
                            .into_iter()
                            .flatten()
                            .map(|(k, v)| format!("{k}={}", string(v)))
                            .collect();
                        or(&json!(pairs.join(",")), "<none>")
                    }),
                ]
            }
        }
        ("discovery.k8s.io", "endpointslices") => {
            const {
                &[
                    text("AddressType", |o| o["addressType"].clone()),
                    text("Ports", |o| {
                        joined(&o["ports"], |p| string(&p["port"]), "<unset>")
                    }),
                    text("Endpoints", |o| {
                        joined(&o["endpoints"], |e| string(&e["addresses"][0]), "<unset>")
                    }),
                    AGE,
                ]
            }
        }
        _ => const { &[AGE] },
    }
}
