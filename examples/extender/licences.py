#!/usr/bin/env python3
"""An extender for data that Kubernetes does not have: a stock of licences per cluster.

It implements all four verbs of Berth's extender protocol (docs/extenders.md) with Python's standard library. `bind`
also calls kubectl, because an extender that stores decisions writes to the control plane itself.

    licences.py --stock stock.json [--port 8888] [--kubeconfig FILE]
"""

import argparse
import json
import subprocess
import threading

from extender_http import serve

# Clusters with more licences than this have the highest score.
PLENTY = 10


class Stock:
    """Remaining licences of each cluster. The file is read once and never written."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.left = {cluster: int(count) for cluster, count in json.load(file).items()}
        self.taken = {}
        self.lock = threading.Lock()

    def free(self, cluster):
        """Returns the remaining licences of a cluster, or None if it has no licence server."""
        with self.lock:
            return self.left.get(cluster)

    def take(self, uid, clusters):
        """Takes one licence in each cluster for a binding, all or none, and returns its previous ones."""
        with self.lock:
            before = self.taken.get(uid, set())
            wanted = {cluster["name"] for cluster in clusters}
            for cluster in sorted(wanted - before):
                if self.left.get(cluster, 0) < 1:
                    raise RuntimeError(f"no licences left in {cluster}")
            for cluster in before - wanted:
                self.left[cluster] += 1
            for cluster in wanted - before:
                self.left[cluster] -= 1
            self.taken[uid] = wanted


class Extender:
    """The verbs: each takes a request of Berth and returns the response."""

    def __init__(self, stock, kubeconfig):
        self.stock = stock
        self.kubeconfig = kubeconfig

    def filter(self, args):
        passing, failed, unresolvable = [], {}, {}
        holds = {target["name"] for target in args["binding"]["spec"].get("clusters", [])}
        for cluster in names(args):
            free = self.stock.free(cluster)
            if free is None:
                unresolvable[cluster] = "cluster(s) had no licence server"
            elif free < 1 and cluster not in holds:
                failed[cluster] = "cluster(s) had no licences left"
            else:
                passing.append(cluster)
        answer = {"failedClusters": failed, "failedAndUnresolvableClusters": unresolvable}
        if "clusterNames" in args:
            return answer | {"clusterNames": passing}
        items = args["clusters"]["items"]
        return answer | {"clusters": {"items": [item for item in items if item["metadata"]["name"] in passing]}}

    def prioritize(self, args):
        return [{"host": cluster, "score": min(self.stock.free(cluster) or 0, PLENTY)} for cluster in names(args)]

    def preempt(self, args):
        # Preemption does not help a cluster without a licence server, so all victims are spared.
        victims = args["clusterNameToVictims"]
        return {"clusterNameToVictims": {name: victims[name] for name in victims if self.stock.free(name) is not None}}

    def bind(self, args):
        try:
            self.stock.take(args["bindingUID"], args["clusters"])
            self.store(args)
        except (RuntimeError, subprocess.CalledProcessError) as error:
            return {"error": (getattr(error, "stderr", None) or str(error)).strip()}
        return {}

    def store(self, args):
        if self.kubeconfig is None:
            raise RuntimeError("the extender was started without --kubeconfig and cannot store decisions")
        # With the UID the server refuses the patch if the binding was recreated meanwhile.
        patch = {"metadata": {"uid": args["bindingUID"]}, "spec": {"clusters": args["clusters"]}}
        kind, scope = "clusterresourcebinding", []
        if args["bindingNamespace"]:
            kind, scope = "resourcebinding", ["--namespace", args["bindingNamespace"]]
        command = ["kubectl", "--kubeconfig", self.kubeconfig, *scope, "patch", kind, args["bindingName"]]
        command += ["--type", "merge", "--patch", json.dumps(patch)]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=4)


def names(args):
    """Returns the names of the clusters, sent alone or within the objects."""
    if "clusterNames" in args:
        return args["clusterNames"]
    return [item["metadata"]["name"] for item in args["clusters"]["items"]]


def main():
    parser = argparse.ArgumentParser(description="Places workloads in clusters with licences.")
    parser.add_argument("--stock", required=True, metavar="FILE", help='licences by cluster, as {"member1": 3}')
    parser.add_argument("--port", type=int, default=8888, help="port to listen on; 0 selects a free one")
    parser.add_argument("--kubeconfig", metavar="FILE", help="the control plane, for bind")
    arguments = parser.parse_args()
    extender = Extender(Stock(arguments.stock), arguments.kubeconfig)
    serve(
        arguments.port,
        {
            "filter": extender.filter,
            "prioritize": extender.prioritize,
            "preempt": extender.preempt,
            "bind": extender.bind,
        },
    )


if __name__ == "__main__":
    main()
