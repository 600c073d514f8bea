//! A script in place of the `helm` commands that need a Kubernetes cluster.

/// A Python script that implements `helm upgrade --install` and `helm uninstall`. It renders the chart with `helm
/// template` of the installed Helm, and applies the manifests with kubectl.
pub(crate) const HELM: &str = r#"#!/usr/bin/env python3
import json, os, subprocess, sys, tempfile
arguments, values, rest = sys.argv[1:], {}, []
context, namespace = [], "default"
while arguments:
    word = arguments.pop(0)
    if word == "--kube-context":
        context = ["--context", arguments.pop(0)]
    elif word in ("-n", "--namespace"):
        namespace = arguments.pop(0)
    elif word == "--set":
        path, value = arguments.pop(0).split("=", 1)
        *folders, key = path.split(".")
        inner = values
        for folder in folders:
            if folder.endswith("[0]"):
                inner = inner.setdefault(folder[:-3], [{}])[0]
            else:
                inner = inner.setdefault(folder, {})
        inner[key] = {"true": True, "false": False}.get(value, value)
    elif word != "--install":
        rest.append(word)
kubectl = ["kubectl", *context, "-n", namespace]
if rest[0] == "uninstall":
    kinds = "clusterroles,clusterrolebindings,deployments,services,configmaps,poddisruptionbudgets,serviceaccounts,roles,rolebindings"
    sys.exit(subprocess.call([*kubectl, "delete", kinds, "-l", f"app.kubernetes.io/instance={rest[1]}"]))
with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
    json.dump(values, file)
    file.flush()
    command = [os.environ["HELM"], "template", rest[1], rest[2], "-n", namespace, "-f", file.name]
    rendered = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
sys.exit(subprocess.run([*kubectl, "apply", "-f", "-"], input=rendered).returncode)
"#;
