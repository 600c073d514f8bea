#!/usr/bin/env python3
"""Writes ClusterScores from the result of a Prometheus query, with Python's standard library and kubectl.

The query must return an instant vector with the name of the cluster in a label:

    prometheus_scores.py --prometheus http://prometheus:9090 --score carbon \\
        --query 'avg by (cluster) (carbon_intensity_grams)' [--label cluster] [--valid-for 600] [--interval 60]

Each cluster gets one object, named prometheus-SCORE-CLUSTER. Its scores expire --valid-for seconds after the sample, so
that a program or a Prometheus that stops is noticed. Without --interval, the program writes once, as in a CronJob.
"""

import argparse
import datetime
import json
import math
import subprocess
import sys
import time
import urllib.parse
import urllib.request

FIELD_MANAGER = "prometheus-scores"


def query(server, text):
    """Returns the samples of an instant query."""
    url = f"{server.rstrip('/')}/api/v1/query?{urllib.parse.urlencode({'query': text})}"
    with urllib.request.urlopen(url, timeout=30) as response:
        answer = json.load(response)
    if answer.get("status") != "success" or answer["data"]["resultType"] != "vector":
        raise ValueError(f"the query returned no instant vector: {answer}")
    return answer["data"]["result"]


def rfc3339(seconds):
    """Formats a time in whole seconds."""
    moment = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def score(name, label, valid_for, sample):
    """Returns the ClusterScore of a sample, or None if the sample has no cluster or no finite value."""
    cluster = sample["metric"].get(label)
    measured_at, value = sample["value"][0], float(sample["value"][1])
    if not cluster or not math.isfinite(value):
        return None
    return {
        "apiVersion": "scheduling.berth/v1alpha1",
        "kind": "ClusterScore",
        "metadata": {"name": f"prometheus-{name}-{cluster}"},
        "spec": {
            "clusterName": cluster,
            "scores": {name: value},
            "timestamp": rfc3339(measured_at),
            "validUntil": rfc3339(measured_at + valid_for),
        },
    }


def write(options):
    """Queries Prometheus once, and applies the scores."""
    samples = query(options.prometheus, options.query)
    found = [score(options.score, options.label, options.valid_for, sample) for sample in samples]
    items = [item for item in found if item]
    if items:
        command = ["kubectl", "apply", "--server-side", f"--field-manager={FIELD_MANAGER}", "-f", "-"]
        objects = {"apiVersion": "v1", "kind": "List", "items": items}
        subprocess.run(command, input=json.dumps(objects), text=True, check=True)
    print(f"{len(items)} of {len(samples)} samples became scores", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prometheus", required=True, help="URL of Prometheus")
    parser.add_argument("--query", required=True, help="query that returns an instant vector")
    parser.add_argument("--score", required=True, help="name of the score")
    parser.add_argument("--label", default="cluster", help="label with the name of the cluster")
    parser.add_argument("--valid-for", type=int, default=600, help="validity in seconds")
    parser.add_argument("--interval", type=int, help="pause between two queries in seconds")
    options = parser.parse_args()
    while True:
        try:
            write(options)
        except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
            if options.interval is None:
                sys.exit(1)
        if options.interval is None:
            return
        time.sleep(options.interval)


if __name__ == "__main__":
    main()
