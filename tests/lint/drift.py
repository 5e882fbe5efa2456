#!/usr/bin/env python3
"""Compares the code's tables with what is written about them.

usage: drift.py BINARY
routes    handlers/routes.c     <-> paths and methods of openapi.yaml
problems  server/http/problem.c <-> urn:rlockd:problem:<code> in openapi.yaml, with their status
details   `detail` of openapi.yaml's examples -> the texts of handlers/ and server/http/
metrics   server/base/metrics.c <-> docs/operations.md
settings  BINARY --help         <-> docs/operations.md; variables also in all pages
version   Makefile -> openapi.yaml, CHANGELOG.md, debian/changelog, Dockerfile, deploy/
alarms    deploy/prometheus/rules.yaml <-> headings of docs/operations.md, tests/alarms
recipes   examples/proxies      <-> docs/operations.md, word for word
attacks   docs/security.md -> the tests that it names
tests     `test_…` in all pages -> test programs and tests of tests/
links     all pages -> files and headings of this repository
"""
import re
import subprocess
import sys
from pathlib import Path

import yaml

METHODS = {"get", "put", "post", "patch", "delete", "options", "trace"}
# OpenAPI has no place for these: docs/neighbours.md
UNDESCRIBED = {"LOCK", "UNLOCK"}

# Besides those of docs/.
PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "tests/RESULTS.md"]

# Where the version stands besides the Makefile and openapi.yaml; of several the newest.
VERSIONS = {"CHANGELOG.md": r"\A(?:(?!^## ).*\n)*^## (\S+)",
            "debian/changelog": r"\Arlockd \((.*)\)",
            "Dockerfile": r"^ARG VERSION=(.+)$",
            "deploy/compose.yaml": r"image: rlockd:(\S+)",
            "deploy/kubernetes/rlockd.yaml": r"image: rlockd:(\S+)",
            "deploy/kubernetes/migration.yaml": r"FROM rlock:([\d.]+\d)"}

DETAIL_MIN = 12  # characters of a text that a detail may come from

problems = []


def compare(what, in_code, in_text, code_file, text_file):
    for name in sorted(in_code - in_text):
        problems.append(f"{what} {name}: in {code_file} but not in {text_file}")
    for name in sorted(in_text - in_code):
        problems.append(f"{what} {name}: in {text_file} but not in {code_file}")
    if not in_code:
        problems.append(f"no {what} found in {code_file}: has the form of its table changed?")


def routes_in_code(path):
    text = Path(path).read_text(encoding="utf-8")
    method, route = r'\.method\s*=\s*"([A-Z]+)"', r'\.path\s*=\s*"([^"]+)"'
    fields = re.findall(f"{method}|{route}", text)
    # Rows give both fields, in either order: they come in pairs.
    pairs = [fields[i:i + 2] for i in range(0, len(fields), 2)]
    found = {("".join(f[0] for f in pair), "".join(f[1] for f in pair)) for pair in pairs}
    if any(not m or not p for m, p in found):
        problems.append(f"{path}: a row without .method or without .path")
    return {f"{m} {p}" for m, p in found if m != "HEAD"}


def check_routes(document):
    described = {f"{method.upper()} {path}" for path, item in document["paths"].items()
                 for method in item if method in METHODS}
    in_code = {route for route in routes_in_code("handlers/routes.c")
               if route.split()[0] not in UNDESCRIBED}
    compare("route", in_code, described,
            "handlers/routes.c", "openapi.yaml")


def problem_statuses(node, found):
    """Every `type: urn:rlockd:problem:…` in the document that stands beside a `status`."""
    if isinstance(node, dict):
        kind, status = node.get("type"), node.get("status")
        if isinstance(kind, str) and kind.startswith("urn:rlockd:problem:") \
                and isinstance(status, int):
            found.add((kind.rsplit(":", 1)[1], status))
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            problem_statuses(child, found)
    return found


def check_problems(document, document_text):
    source = Path("server/http/problem.c").read_text(encoding="utf-8")
    table = {}
    for row in re.findall(r"^ +\[PROBLEM_\w+\]\s*=\s*\{(.*?)(?=\n +\[|\n\};|\Z)", source,
                          re.M | re.S):
        status = re.search(r"\b([45]\d\d)\b", row)
        code = re.search(r'"([a-z][a-z-]*)"', row)
        if status and code:
            table.setdefault(code[1], set()).add(int(status[1]))
        else:
            problems.append("server/http/problem.c: no status or code in the row "
                            + row.strip())
    written = set(re.findall(r"urn:rlockd:problem:([a-z][a-z-]*)", document_text))
    compare("problem", set(table), written, "server/http/problem.c", "openapi.yaml")
    for code, status in sorted(problem_statuses(document, set())):
        if code in table and status not in table[code]:
            problems.append(f"problem {code}: status {sorted(table[code])} in"
                            f" server/http/problem.c, {status} in openapi.yaml")


def details_of(node, name):
    """The `detail` of every example of a problem, with the name of the example."""
    if isinstance(node, dict):
        if isinstance(node.get("detail"), str) and str(node.get("type")).startswith("urn:"):
            yield name, node["detail"]
        for key, child in node.items():
            yield from details_of(child, name if key == "value" else key)


def texts_in_code():
    """Patterns of the texts in the sources, where a conversion of printf() stands for any text.
    Left out is what would match nearly everything."""
    literal = r'"((?:[^"\\]|\\.)*)"'
    for folder in ("handlers", "server/http"):
        for path in sorted(Path(folder).glob("*.[ch]")):
            source = path.read_text(encoding="utf-8")
            source = re.sub(r"\bPRI[du]64\b", '"d"', source)
            source = re.sub(r'(?<=")\s+[A-Z]+_[A-Z_]+(?=\s)', ' "%s"', source)
            for match in re.finditer(rf"{literal}(?:\s*{literal})*", source):
                text = "".join(re.findall(literal, match[0]))
                pattern = ".*".join(re.escape(part) for part in re.split(r"%l?[a-z]", text))
                if len(pattern) >= DETAIL_MIN:
                    yield re.compile(pattern)


def check_details(document):
    patterns = list(texts_in_code())
    for name, detail in sorted(details_of(document, "")):
        if not any(pattern.fullmatch(detail) for pattern in patterns):
            problems.append(f"openapi.yaml: {name}: no source says {detail!r}")


def check_version(document, makefile):
    version = re.search(r"^VERSION\s*:?=\s*(\S+)", makefile, re.M)[1]
    if document["info"]["version"] != version:
        problems.append(f"version {version} in the Makefile,"
                        f" {document['info']['version']} in openapi.yaml")
    for path, pattern in VERSIONS.items():
        text = Path(path).read_text(encoding="utf-8")
        for found in re.findall(pattern, text, re.M) or ["none"]:
            if found != version:
                problems.append(f"version {version} in the Makefile, {found} in {path}")


def help_text(binary):
    return subprocess.run([binary, "--help"], check=True, text=True, timeout=20,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout


def check_settings(told, path):
    page = Path(path).read_text(encoding="utf-8")
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", told))
    variables = set(re.findall(r"\bRLOCKD_[A-Z][A-Z0-9_]*", told))
    settings = re.findall(r"^  (--[a-z-]+)\s.*?(RLOCKD_\w+), default: (.*?)$", told,
                          re.M | re.S)
    table = {}
    for line in page.splitlines():
        flag = re.match(r"\|\s*`(--[a-z][a-z0-9-]*)", line)
        if flag:
            table[flag[1]] = line
    rows = "\n".join(table.values())
    missing = flags - set(re.findall(r"--[a-z][a-z0-9-]*", page))
    missing |= {flag for flag, _, _ in settings} - set(re.findall(r"--[a-z][a-z0-9-]*", rows))
    missing |= variables - set(re.findall(r"\bRLOCKD_[A-Z0-9_]+", rows))
    for name in sorted(missing):
        problems.append(f"setting {name}: in --help but not in {path}")
    for name in sorted(set(table) - flags | set(re.findall(r"\bRLOCKD_\w+", rows)) - variables):
        problems.append(f"setting {name}: in {path} but not in --help")
    for flag, variable, default in settings:
        if flag in table and (variable not in table[flag] or default not in table[flag]):
            problems.append(f"setting {flag}: {path} must say {variable} and {default}")
    if not settings:
        problems.append("--help shows no settings: has its form changed?")
    if not table:
        problems.append(f"{path} has no settings table (rows that begin with `--flag`)")


def check_variables(binary_help, path):
    """A document may name a setting only if there is one."""
    known = set(re.findall(r"\bRLOCKD_[A-Z][A-Z0-9_]*", binary_help))
    named = set(re.findall(r"\bRLOCKD_[A-Z0-9_]+", path.read_text(encoding="utf-8")))
    for name in sorted(named - known):
        problems.append(f"setting {name}: in {path} but not in --help")


def check_metrics(path):
    """Tables of the document name every metric, and the document names no other."""
    source = Path("server/base/metrics.c").read_text(encoding="utf-8")
    page = Path(path).read_text(encoding="utf-8")
    section = re.search(r"^## Metrics$(.*?)^## ", page, re.M | re.S)[1]
    names = set(re.findall(r'"rlockd_(\w+)"', source))
    rows = "".join(re.findall(r"^\|.*$", section, re.M))
    told = {name for name in re.findall(r"`([a-z_]+)[`{]", rows)
            if "_" in name or name in names}
    compare("metric", names, told, "server/base/metrics.c", path)


def check_alarms():
    """Each alarm has its runbook, a test in which it fires, and a test in which it does not."""
    path = "deploy/prometheus/rules.yaml"
    groups = yaml.safe_load(Path(path).read_text(encoding="utf-8"))["groups"]
    rules = {rule["alert"]: rule for group in groups for rule in group["rules"]}
    page = Path("docs/operations.md")
    compare("alarm", set(rules), set(re.findall(r"^### (Rlockd\w+)$",
                                                page.read_text(encoding="utf-8"), re.M)),
            path, page)
    for name, rule in rules.items():
        if rule["annotations"]["runbook_url"] != f"{page}#{name.lower()}":
            problems.append(f"{path}: {name}: the runbook is {page}#{name.lower()}")
    tests = yaml.safe_load(Path("tests/alarms/rules_test.yaml").read_text(encoding="utf-8"))
    cases = {(case["alertname"], bool(case["exp_alerts"]))
             for test in tests["tests"] for case in test["alert_rule_test"]}
    for name in rules:
        for fires in {True, False} - {fires for alarm, fires in cases if alarm == name}:
            problems.append(f"alarm {name}: no test in which it"
                            f" {'fires' if fires else 'does not fire'}")


def anchors(path):
    """The fragments that GitHub gives to the headings of a document."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", text, re.M)}


def check_links(path):
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    for file, fragment in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", text):
        target = path.parent / file if file else path
        if not target.exists():
            problems.append(f"{path}: {file} is not there")
        elif fragment and fragment not in anchors(target):
            problems.append(f"{path}: {file} has no heading #{fragment}")


def tests_in_code():
    """The names of test programs, and of the tests in their tables."""
    programs = sorted(Path("tests").glob("*/test_*.c"))
    return {path.stem for path in programs} | {
        name for path in programs
        for name in re.findall(r"(?i)_test\w*\((test_\w+)", path.read_text(encoding="utf-8"))}


def check_tests(path, tests):
    for name in re.findall(r"`(test_\w+)(?:\.c)?`", path.read_text(encoding="utf-8")):
        if name not in tests:
            problems.append(f"{path}: there is no test {name}")


def check_recipes():
    page = Path("docs/operations.md").read_text(encoding="utf-8")
    for path in sorted(Path("examples/proxies").glob("*")):
        if f"```\n{path.read_text(encoding='utf-8')}```\n" not in page:
            problems.append(f"{path}: not word for word in docs/operations.md")


def check_attacks(path):
    """Each row names programs of tests/, and behind a program functions of that program."""
    text = Path(path).read_text(encoding="utf-8")
    names = [name for row in re.findall(r"^\|.*\| (.*) \|$", text, flags=re.M)
             for name in re.findall(r"`((?:e2e|unit|scripts)/\w+|\w+_\w+)`", row)]
    program = ""
    for name in names:
        if "/" in name:
            files = list(Path("tests").glob(f"{name}.*"))
            program = files[0].read_text(encoding="utf-8") if files else ""
            if not files:
                problems.append(f"{path}: there is no test tests/{name}")
        elif program and not re.search(rf"\b{name}\b", program):
            problems.append(f"{path}: the test before it has no {name}")
    if not program:
        problems.append(f"{path}: no test found: has the form of its table changed?")


def main():
    document_text = Path("openapi.yaml").read_text(encoding="utf-8")
    try:
        document = yaml.safe_load(document_text)
    except yaml.YAMLError:
        sys.exit("openapi.yaml is not YAML")
    check_routes(document)
    check_problems(document, document_text)
    check_details(document)
    check_metrics("docs/operations.md")
    check_alarms()
    check_version(document, Path("Makefile").read_text(encoding="utf-8"))
    told = help_text(sys.argv[1])
    check_settings(told, "docs/operations.md")
    tests = tests_in_code()
    for path in map(Path, PAGES + sorted(map(str, Path("docs").glob("*.md")))):
        check_variables(told, path)
        check_links(path)
        check_tests(path, tests)
    check_recipes()
    check_attacks("docs/security.md")
    for line in problems:
        print(line)
    sys.exit(bool(problems))


try:
    main()
except OSError as error:
    sys.exit(f"drift: {error}")
