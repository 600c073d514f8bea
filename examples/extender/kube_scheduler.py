#!/usr/bin/env python3
"""An adapter for extenders written for kube-scheduler, which expect a Pod and Nodes.

Berth sends a binding and clusters (docs/extenders.md). The adapter builds a Pod from the binding, with its labels and the
requests and node requirements of one replica, and a Node from each cluster, with its labels, taints and capacity. It
forwards filter and prioritize; kube-scheduler's preempt and bind concern single pods and have no counterpart.

    kube_scheduler.py --to http://127.0.0.1:8880/scheduler [--port 8889]
"""

import argparse
import json
import sys
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

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
        answer = self.ask("filter", args)
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
        answer = self.ask("prioritize", args)
        return [{"host": field(one, "Host"), "score": field(one, "Score")} for one in answer or []]

    def ask(self, verb, args):
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


class Handler(BaseHTTPRequestHandler):
    # Keeps connections open between calls.
    protocol_version = "HTTP/1.1"
    verbs = {}

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        verb = self.verbs.get(self.path)
        if verb is None:
            return self.answer(404, {"error": f"no such verb: {self.path}"})
        try:
            answer = verb(json.loads(body))
        except (KeyError, TypeError, ValueError) as error:
            return self.answer(502, {"error": f"cannot translate: {error!r}"})
        except (urllib.error.URLError, TimeoutError) as error:
            return self.answer(502, {"error": f"cannot reach the extender: {error}"})
        self.answer(200, answer)

    def answer(self, status, message):
        body = json.dumps(message).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        print("%s" % (arguments[0] % arguments[1:]), file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description="Asks an extender of kube-scheduler about clusters.")
    parser.add_argument("--to", required=True, metavar="URL", help="the urlPrefix of the extender")
    parser.add_argument("--port", type=int, default=8889, help="port to listen on; 0 takes a free one")
    arguments = parser.parse_args()
    adapter = Adapter(arguments.to)
    Handler.verbs = {"/scheduler/filter": adapter.filter, "/scheduler/prioritize": adapter.prioritize}
    server = ThreadingHTTPServer(("127.0.0.1", arguments.port), Handler)
    print(f"http://127.0.0.1:{server.server_port}/scheduler", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
