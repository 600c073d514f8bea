#!/usr/bin/env python3
"""An adapter for extenders written for kube-scheduler, which expect a Pod and Nodes.

Berth sends a binding and clusters (docs/extenders.md). The adapter builds a Pod from the binding, with its labels and the
requests and node requirements of one replica, and a Node from each cluster, with its labels, taints and capacity. It
forwards filter and prioritize; kube-scheduler's preempt and bind concern single pods and have no counterpart.

    kube_scheduler.py --to http://127.0.0.1:8880/scheduler [--port 8889]
"""

import argparse
import json
import urllib.request

from extender_http import serve

# Shorter than the httpTimeout of the scheduler, so that the scheduler receives the reason of a failure.
TIMEOUT_SECONDS = 4


def pod_of(binding):
    """Returns a Pod for one replica of the workload of a binding."""
    spec = binding["spec"]
    resource = spec["resource"]
    needs = spec.get("replicaRequirements") or {}
    claim = needs.get("nodeClaim") or {}
    pod = {
        "nodeSelector": claim.get("nodeSelector") or {},
        "tolerations": claim.get("tolerations") or [],
        "schedulerName": spec.get("schedulerName") or "default-scheduler",
        "containers": [{"name": resource["name"], "resources": {"requests": needs.get("resourceRequest") or {}}}],
    }
    if claim.get("hardNodeAffinity"):
        required = {"requiredDuringSchedulingIgnoredDuringExecution": claim["hardNodeAffinity"]}
        pod["affinity"] = {"nodeAffinity": required}
    metadata = {
        "name": resource["name"],
        "namespace": resource.get("namespace", ""),
        "uid": resource.get("uid", ""),
        "labels": binding["metadata"].get("labels") or {},
        "annotations": binding["metadata"].get("annotations") or {},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}


def node_of(cluster):
    """Returns a cluster as one large Node."""
    status = cluster.get("status") or {}
    summary = status.get("resourceSummary") or {}
    metadata = {key: cluster["metadata"][key] for key in ("name", "uid", "labels", "annotations") if key in cluster["metadata"]}
    ready = [condition for condition in status.get("conditions") or [] if condition["type"] == "Ready"]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {"taints": (cluster.get("spec") or {}).get("taints") or []},
        "status": {
            "capacity": summary.get("allocatable") or {},
            "allocatable": summary.get("allocatable") or {},
            "conditions": ready,
        },
    }


def field(answer, name):
    """Returns a field of a response. Servers in Go write `NodeNames`, others `nodenames` or `nodeNames`."""
    for key, value in (answer or {}).items():
        if key.lower() == name.lower():
            return value
    return None


class Adapter:
    """The verbs: each translates a request of Berth, calls the other server, and translates the response."""

    def __init__(self, to):
        self.to = to.rstrip("/")

    def filter(self, args):
        answer = self.call("filter", args)
        result = {
            "failedClusters": field(answer, "FailedNodes"),
            "failedAndUnresolvableClusters": field(answer, "FailedAndUnresolvableNodes"),
            "error": field(answer, "Error") or "",
        }
        names, nodes = field(answer, "NodeNames"), field(answer, "Nodes")
        if names is None and nodes is not None:
            names = [node["metadata"]["name"] for node in field(nodes, "items") or []]
        if "clusterNames" in args:
            return result | {"clusterNames": names or []}
        passing = [{"metadata": {"name": name}} for name in names or []]
        return result | {"clusters": {"items": passing}}

    def prioritize(self, args):
        answer = self.call("prioritize", args)
        return [{"host": field(priority, "Host"), "score": field(priority, "Score")} for priority in answer or []]

    def call(self, verb, args):
        sent = {"Pod": pod_of(args["binding"]), "Nodes": None, "NodeNames": None}
        if "clusterNames" in args:
            sent["NodeNames"] = args["clusterNames"]
        else:
            items = [node_of(cluster) for cluster in args["clusters"]["items"]]
            sent["Nodes"] = {"apiVersion": "v1", "kind": "NodeList", "items": items}
        request = urllib.request.Request(
            f"{self.to}/{verb}", json.dumps(sent).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            return json.load(answer)


def main():
    parser = argparse.ArgumentParser(description="Forwards calls to an extender of kube-scheduler.")
    parser.add_argument("--to", required=True, metavar="URL", help="the urlPrefix of the extender")
    parser.add_argument("--port", type=int, default=8889, help="port to listen on; 0 selects a free one")
    arguments = parser.parse_args()
    adapter = Adapter(arguments.to)
    serve(arguments.port, {"filter": adapter.filter, "prioritize": adapter.prioritize})


if __name__ == "__main__":
    main()
