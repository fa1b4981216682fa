"""The files in `deploy/` name settings, commands, probes and paths that exist; no container was ever built from them."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from gearshift.cli import app as cli
from gearshift.console.routes.running import router
from gearshift.settings import load

ROOT = Path(__file__).parents[2]
IMAGE = (ROOT / "deploy/Dockerfile").read_text("utf-8")
OBJECTS: list[dict[str, Any]] = list(yaml.safe_load_all((ROOT / "deploy/kubernetes.yaml").read_text("utf-8")))
PODS = {
    each["metadata"]["name"]: each["spec"]["template"]["spec"]
    for each in OBJECTS
    if each["kind"] == "Deployment"
}
CONTAINERS = {name: pod["containers"][0] for name, pod in PODS.items()}
[ENTRYPOINT] = [json.loads(words) for words in re.findall(r"^ENTRYPOINT (.*)", IMAGE, re.MULTILINE)]
RUN_IN_IMAGE = [line.split()[1:] for line in re.findall(r"(?<=\s)gearshift check .*", IMAGE)]
COMMANDS = [
    *RUN_IN_IMAGE,
    *([*ENTRYPOINT[1:], *json.loads(words)] for words in re.findall(r"^CMD (.*)", IMAGE, re.MULTILINE)),
    *([*ENTRYPOINT[1:], *each["args"]] for each in CONTAINERS.values()),
]


def one(kind: str, name: str = "gearshift") -> dict[str, Any]:
    [found] = [each for each in OBJECTS if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def test_every_variable_is_a_setting(tmp_path: Path) -> None:
    variables = {**one("ConfigMap")["data"], **one("Secret")["stringData"]}
    settings = load(
        folder=tmp_path, environ={**variables, **dict(re.findall(r"(GEARSHIFT_\w+)=(\S+)", IMAGE))}
    )
    assert settings.storage.access.secret_key == "change-me"
    assert settings.kafka["sasl.password"].get_secret_value() == "change-me"
    assert not any(name in one("ConfigMap")["data"] for name in one("Secret")["stringData"])


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_is_one(words: list[str]) -> None:
    group = typer.main.get_command(cli)
    context = group.make_context("gearshift", list(words))
    name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
    assert command is not None
    command.make_context(name, rest, parent=context)


def test_probes_and_the_scrape_are_answered_without_a_token() -> None:
    paths = {route.path for route in router.routes if "probes" in route.tags}
    runner = CONTAINERS["gearshift-runner"]
    probes = {name: runner[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/health",
        "liveness": "/health",
        "readiness": "/ready",
    }
    annotations = one("Service")["metadata"]["annotations"]
    assert {*(probe["path"] for probe in probes.values()), annotations["prometheus.io/path"]} <= paths
    assert {probe["scheme"] for probe in probes.values()} == {"HTTPS"}  # as a console for other machines is
    assert {probe["port"] for probe in probes.values()} == {runner["ports"][0]["name"]}
    [served] = one("Service")["spec"]["ports"]
    port = one("ConfigMap")["data"]["GEARSHIFT_CONSOLE_PORT"]
    assert {port, annotations["prometheus.io/port"]} == {
        str(served["port"]),
        str(runner["ports"][0]["containerPort"]),
    }


def test_the_objects_belong_together() -> None:
    names = {(each["kind"], each["metadata"]["name"]) for each in OBJECTS}
    data = one("ConfigMap")["data"]
    for name, container in CONTAINERS.items():
        for source in container["envFrom"]:
            [(kind, named)] = source.items()
            assert (
                {"configMapRef": "ConfigMap", "secretRef": "Secret"}[kind],
                named["name"],
            ) in names
        mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert set(mounted) == {volume["name"] for volume in PODS[name]["volumes"]}
        assert mounted["home"] == data["GEARSHIFT_HOME"]
        deployment = one("Deployment", name)["spec"]
        assert (
            deployment["selector"]["matchLabels"].items()
            <= deployment["template"]["metadata"]["labels"].items()
        )
        # A Service called gearshift puts GEARSHIFT_SERVICE_HOST into every container that does not decline.
        assert PODS[name]["enableServiceLinks"] is False
    assert one("Service")["spec"]["selector"] == {"app": "gearshift-runner"}
    assert data["GEARSHIFT_CONSOLE_KEY"].startswith(
        CONTAINERS["gearshift-runner"]["volumeMounts"][1]["mountPath"]
    )


def test_one_runner_replaces_the_other() -> None:
    runner = one("Deployment", "gearshift-runner")["spec"]
    assert (runner["replicas"], runner["strategy"]["type"]) == (1, "Recreate")


def test_the_image_has_the_python_that_the_project_requires() -> None:
    [version] = re.findall(r"^FROM python:(\d+\.\d+)-slim-bookworm$", IMAGE, re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["requires-python"] == f">={version}"
