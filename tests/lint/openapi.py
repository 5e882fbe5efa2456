#!/usr/bin/env python3
"""Checks openapi.yaml by itself: the shape OpenAPI 3.1 asks for, references, and that every
example is valid against the schema beside it (schemas of 3.1 are JSON Schema 2020-12)."""
import re
import sys
from pathlib import Path

import jsonschema
import yaml

METHODS = {"get", "put", "post", "patch", "delete", "head", "options", "trace"}
ROOT = {"openapi", "info", "jsonSchemaDialect", "servers", "paths", "webhooks", "components",
        "security", "tags", "externalDocs"}

problems = []


def complain(where, text):
    problems.append(f"openapi.yaml: {where}: {text}")


class UniqueKeyLoader(yaml.SafeLoader):
    """YAML's own loader lets the last of two equal keys win in silence."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in {k for k in keys if keys.count(k) > 1}:
            complain(f"line {node.start_mark.line + 1}", f"key {key!r} twice")
        return super().construct_mapping(node, deep)


# Dates and the like stay text, as they are in JSON.
UniqueKeyLoader.yaml_implicit_resolvers = {
    first: [(tag, expr) for tag, expr in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in UniqueKeyLoader.yaml_implicit_resolvers.items()}


def walk(node, where=""):
    yield where, node
    children = node.items() if isinstance(node, dict) else \
        enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield from walk(child, f"{where}/{key}")


class Document:
    def __init__(self, root):
        self.root = root

    def target(self, reference):
        """What a reference within the document means; None: nothing."""
        node = self.root
        for step in reference.removeprefix("#/").split("/"):
            step = step.replace("~1", "/").replace("~0", "~")
            node = node.get(step) if isinstance(node, dict) else None
        return node if reference.startswith("#/") else None

    def resolve(self, node):
        while isinstance(node, dict) and "$ref" in node:
            node = self.target(node["$ref"])
        return node or {}

    def validator(self, schema):
        """References in a schema begin at the root of the document, so its components are put
        beside it. Raises SchemaError."""
        jsonschema.Draft202012Validator.check_schema(schema)
        return jsonschema.Draft202012Validator(
            {**schema, "components": self.root.get("components", {})})

    def check_examples(self, where, schema, examples):
        try:
            validator = self.validator(schema)
        except jsonschema.SchemaError as error:
            complain(where, f"bad schema: {error.message}")
            return
        for name, value in examples.items():
            for error in validator.iter_errors(value):
                at = "/".join(map(str, error.absolute_path))
                complain(f"{where}/{name}", f"{at}: {error.message}")

    def check_references(self):
        for where, node in walk(self.root):
            reference = node.get("$ref") if isinstance(node, dict) else None
            if isinstance(reference, str):
                if self.target(reference) is None:
                    complain(where, f"{reference} leads nowhere")

    def check_unused(self):
        used = {node["$ref"] for _, node in walk(self.root)
                if isinstance(node, dict) and isinstance(node.get("$ref"), str)}
        for kind, members in self.root.get("components", {}).items():
            for name in members:
                if kind != "securitySchemes" and f"#/components/{kind}/{name}" not in used:
                    complain(f"/components/{kind}/{name}", "used nowhere")

    def check_media_types(self):
        """Media types, parameters and headers: `schema` with `example` or `examples`."""
        for where, node in walk(self.root):
            if not isinstance(node, dict) or not isinstance(node.get("schema"), dict) \
                    or "/properties/" in where:
                continue
            examples = {f"examples/{name}": self.resolve(example).get("value")
                        for name, example in node.get("examples", {}).items()}
            if "example" in node:
                examples["example"] = node["example"]
            self.check_examples(where, node["schema"], examples)

    def check_component_schemas(self):
        for name, schema in self.root.get("components", {}).get("schemas", {}).items():
            self.check_examples(f"/components/schemas/{name}", schema,
                                dict(enumerate(schema.get("examples", []))))

    def check_operation(self, where, path, shared, operation, seen):
        name = operation.get("operationId")
        if not name or name in seen:
            complain(where, f"operationId {name} is missing or used twice")
        seen.add(name)
        parameters = [self.resolve(p) for p in shared + operation.get("parameters", [])]
        keys = [(p.get("in"), p.get("name")) for p in parameters]
        for key in {k for k in keys if keys.count(k) > 1}:
            complain(where, f"parameter {key} twice")
        for parameter in parameters:
            if parameter.get("in") not in ("path", "query", "header", "cookie") \
                    or not parameter.get("name") \
                    or ("schema" in parameter) == ("content" in parameter):
                complain(where, f"parameter without in, name or schema: {parameter}")
            if parameter.get("in") == "path" and parameter.get("required") is not True:
                complain(where, f"path parameter {parameter.get('name')} must be required")
            # Some generated clients send each default.
            if "Only with" in parameter.get("description", "") \
                    and "default" in parameter.get("schema", {}):
                complain(where, f"{parameter.get('name')} depends on another parameter, "
                                "and has a default")
        declared = {p.get("name") for p in parameters if p.get("in") == "path"}
        if declared != set(re.findall(r"\{([^}]+)\}", path)):
            complain(where, f"path parameters differ: {sorted(declared)}")
        responses = operation.get("responses") or {}
        if not responses:
            complain(where, "no responses")
        for status, response in responses.items():
            if not re.fullmatch(r"[1-5](\d\d|XX)|default", str(status)) \
                    or not isinstance(status, str):
                complain(where, f"status {status!r} must be quoted text of three digits")
            if not self.resolve(response).get("description"):
                complain(where, f"response {status} without description")

    def check_paths(self):
        seen = set()
        for path, item in (self.root.get("paths") or {}).items():
            for method in METHODS & set(item):
                self.check_operation(f"{method.upper()} {path}", path,
                                     item.get("parameters", []), item[method], seen)

    def check(self):
        if not str(self.root.get("openapi")).startswith("3.1."):
            complain("openapi", "is not 3.1.x")
        for name in set(self.root) - ROOT:
            complain(name, "is no member of an OpenAPI document")
        info = self.root.get("info") or {}
        if not info.get("title") or not isinstance(info.get("version"), str):
            complain("info", "needs a title, and a version as text")
        self.check_references()
        self.check_unused()
        self.check_component_schemas()
        self.check_media_types()
        self.check_paths()


text = Path("openapi.yaml").read_text(encoding="utf-8")
try:
    Document(yaml.load(text, UniqueKeyLoader)).check()
except yaml.YAMLError as error:
    complain("not YAML", " ".join(str(error).split()))
print("\n".join(problems), end="\n" if problems else "")
sys.exit(bool(problems))
