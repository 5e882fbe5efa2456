#!/usr/bin/env python3
"""Prints a software bill of materials (CycloneDX 1.5, JSON) of programs: the Debian packages whose
libraries they load, directly or not, and what is compiled in. Without times and random numbers,
so that the same programs have the same bill.

usage: sbom.py VERSION PROGRAM..."""
import json
import re
import subprocess
import sys
from pathlib import Path

# Headers alone, so that no program shows them.
COMPILED_IN = {"rlockd": ["uthash-dev"]}


def output(*command):
    return subprocess.run(command, check=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def package_of(path):
    """The Debian package of a file. Its database may know the file without /usr."""
    real = str(Path(path).resolve())
    for known in (real, real.removeprefix("/usr"), path):
        try:
            return output("dpkg-query", "-S", known).split(": ")[0].split(",")[0]
        except subprocess.CalledProcessError:
            continue
    sys.exit(f"sbom: {path} is in no Debian package")


def component(package):
    form = "${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}"
    name, version, architecture, source, source_version = output(
        "dpkg-query", "-W", "-f", form, package).split("\t")
    purl = f"pkg:deb/debian/{name}@{version}?arch={architecture}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl,
            "properties": [{"name": "debian:source", "value": source},
                           {"name": "debian:source-version", "value": source_version}]}


def packages_of(program):
    """Those of the libraries that it names, and those of all that it loads."""
    paths = dict(re.findall(r"(\S+) => (/\S+)", output("ldd", program)))
    named = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "--dynamic", program))
    direct = {package_of(paths[name]) for name in named if name in paths}
    return direct, {package_of(path) for path in paths.values()}


def main():
    version, programs = sys.argv[1], sys.argv[2:]
    components, dependencies = {}, []
    for program in programs:
        name = Path(program).name
        direct, loaded = packages_of(program)
        compiled_in = COMPILED_IN.get(name, [])
        for package in sorted(loaded) + compiled_in:
            components[package] = component(package)
        needs = sorted(components[package]["bom-ref"] for package in direct | set(compiled_in))
        dependencies.append({"ref": name, "dependsOn": needs})
    applications = [{"type": "application", "bom-ref": Path(program).name,
                     "name": Path(program).name, "version": version,
                     "licenses": [{"license": {"id": "Apache-2.0"}}]} for program in programs]
    bill = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "metadata": {"component": {"type": "application", "bom-ref": "source",
                                       "name": "rlockd-source", "version": version}},
            "components": applications + [components[name] for name in sorted(components)],
            "dependencies": dependencies}
    print(json.dumps(bill, indent=2))


main()
