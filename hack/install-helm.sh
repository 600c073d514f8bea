#!/usr/bin/env bash
# Installs `helm template` and `helm lint` from PyPI, for machines that cannot download Helm's releases. Takes the folder,
# and prints the line that puts it on the PATH. Helm's own library does the work, through the package helm-python-sdk.
set -euo pipefail

if [ $# != 1 ]; then
  echo "usage: hack/install-helm.sh FOLDER" >&2
  exit 2
fi
mkdir -p "$1/bin"
folder=$(cd "$1" && pwd)
python3 -m venv "$folder/python"
requirements=$(mktemp)
trap 'rm -f "$requirements"' EXIT
# The wheels of Linux on amd64 and arm64.
cat >"$requirements" <<'END'
helm-python-sdk==0.2.2 \
  --hash=sha256:28cc13abaf134c3a7e37f070c939be8d9cdc9825c3c8b8b2d35161073bcd4578 \
  --hash=sha256:078bac2464ea2f4b5af24cf7873e8f78ee3f3c216766fcdea41b7c61f47275b1
END
"$folder/python/bin/pip" install --quiet --disable-pip-version-check --require-hashes --requirement "$requirements"
cat >"$folder/bin/helm" <<END
#!$folder/python/bin/python
END
cat >>"$folder/bin/helm" <<'END'
"""The commands `template` and `lint` of Helm, with values in JSON files."""

import argparse
import json
import sys

import helm_python

parser = argparse.ArgumentParser(prog="helm")
commands = parser.add_subparsers(dest="command", required=True)
template = commands.add_parser("template")
template.add_argument("name")
lint = commands.add_parser("lint")
for command in (template, lint):
    command.add_argument("chart")
    command.add_argument("--namespace", "-n", default="default")
    command.add_argument("--values", "-f")
lint.add_argument("--strict", action="store_true")
arguments = parser.parse_args()

values = {}
if arguments.values:
    with open(arguments.values) as file:
        values = json.load(file)
try:
    if arguments.command == "lint":
        report = helm_python.lint(arguments.chart, values, strict=arguments.strict, namespace=arguments.namespace)
        for message in report["messages"]:
            print(message["path"], message["error"], sep=": ")
        sys.exit(1 if report["errors"] else 0)
    chart = helm_python.Chart.load(arguments.chart)
    rendered = chart.render(values, name=arguments.name, namespace=arguments.namespace)
    for path, text in rendered.items():
        if text.strip() and not path.endswith("NOTES.txt"):
            print("---", f"# Source: {path}", text, sep="\n")
except helm_python.HelmError as error:
    print("Error:", error, file=sys.stderr)
    sys.exit(1)
END
chmod +x "$folder/bin/helm"
echo "export PATH=\"$folder/bin:\$PATH\""
