#!/usr/bin/env bash
# run.sh BUILD: what deploy/ and the Dockerfile have for others to run, by the schemas of those
# who run it: Compose, Kubernetes, HAProxy, Prometheus, Docker; and `make sbom` by CycloneDX's.
# There is no schema of ServiceMonitor in these packages: it is only read as YAML.
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=tests/clients/tools.sh
. tests/clients/tools.sh

work=$(mktemp -d "${TMPDIR:-/tmp}/rlockd-deploy.XXXXXX")
trap 'rm -rf "$work"' EXIT

python_packages deploy "$PWD/tests/deploy/requirements.txt"
bin=$TOOLS/deploy/bin

"$bin/check-jsonschema" --builtin-schema vendor.compose-spec deploy/compose.yaml
"$bin/kubernetes-validate" --strict --quiet --no-warn deploy/kubernetes/*.yaml
# DL3008: the base image says which suite, and a rebuild is to bring its fixes.
"$bin/hadolint" --ignore DL3008 Dockerfile

# What deploy/compose.yaml has inside for other programs.
/usr/bin/python3 - "$work" << 'END'
import sys
from pathlib import Path

import yaml

for name, config in yaml.safe_load(Path("deploy/compose.yaml").read_text())["configs"].items():
    text = config.get("content") or (Path("deploy") / config["file"]).read_text()
    (Path(sys.argv[1]) / {"rules": "rules.yaml"}.get(name, name)).write_text(text)

# Namespaces of clients need these labels, so what runs in one of them has to say so. Kubernetes
# itself sets the labels of its own domain.
policy = next(document for document in
              yaml.safe_load_all(Path("deploy/kubernetes/rlockd.yaml").read_text())
              if document["kind"] == "NetworkPolicy")
labels = [label for rule in policy["spec"]["ingress"] for peer in rule["from"]
          for label in peer["namespaceSelector"]["matchLabels"].items()
          if not label[0].startswith("kubernetes.io/")]
client = Path("deploy/kubernetes/migration.yaml").read_text()
missing = [f"{name}={value}" for name, value in labels if f"{name}={value}" not in client]
if missing or not labels:
    sys.exit(f"migration.yaml names no label of the network policy: {missing}")

# With -E 0 a job whose lock is busy has succeeded: also a second try, whose lock is kept by the
# first one, which has failed.
for cron_job in yaml.safe_load_all(client):
    if cron_job["kind"] != "CronJob":
        continue
    job = cron_job["spec"]["jobTemplate"]["spec"]
    pod = job["template"]["spec"]
    command = pod["containers"][0]["command"]
    is_tried_again = job.get("backoffLimit") != 0 or pod["restartPolicy"] != "Never"
    if "-E" in command and is_tried_again:
        sys.exit(f"migration.yaml: {command} is tried again, and then ends with 0 at once")
END
/usr/sbin/haproxy -c -q -f "$work/haproxy"
promtool check config "$work/prometheus" > "$work/told" || { cat "$work/told"; exit 1; }

"$bin/python" - "$1/sbom.cdx.json" << 'END'
import sys
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(Path(sys.argv[1]).read_text())
sys.exit(f"sbom: {error}" if error else 0)
END
echo "deploy: clean"
