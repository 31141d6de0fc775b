"""All objects of all serve configs: valid, in order, small, named once, stable; the same on both roads."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner

from kvrelay_k8s import charts
from kvrelay_k8s.__main__ import manifests
from kvrelay_k8s.files import as_yaml, write_files
from tests.kvrelay_k8s.manifests import Object, cluster_of, find, objects_of, pods_of, sets_of, with_settings
from tests.serve_app.examples import DEPLOYMENTS, PROJECT, example

SNAPSHOTS = Path(__file__).with_name("snapshots")
EVERY_CONFIG = pytest.mark.parametrize("name", DEPLOYMENTS)


def _validate(resource: Object) -> None:
    kubernetes_validate.validate(resource, "1.36", strict=True)


@EVERY_CONFIG
def test_core_objects_match_the_clusters_api(name: str) -> None:
    for each in objects_of(name):
        if not each["apiVersion"].startswith("ray.io/"):
            _validate(each)


@EVERY_CONFIG
def test_rays_pods_match_the_clusters_api(name: str) -> None:
    """The CRD leaves them open: here they are checked as the pods that the operator makes of them."""
    for group, spec in pods_of(cluster_of(objects_of(name))).items():
        _validate({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": group}, "spec": spec})


@pytest.mark.parametrize(
    "serving",
    [
        {"security_profile": "ipc-lock", "hugepages_mib": 5120},
        {"weights": (("source", "s3"), ("bucket", "my-weights"), ("prefix", "models/qwen3.5-9b"))},
        {"weights": (("source", "hugging-face"), ("token_secret_name", "hugging-face/token"))},
        {"weights": (("source", "hugging-face"), ("token_kubernetes_secret", "hf")), "upgrade": "surge"},
    ],
    ids=["ipc-lock", "s3", "secrets-manager", "kubernetes-secret"],
)
def test_so_do_those_of_other_settings(serving: dict[str, Any]) -> None:
    for group, spec in pods_of(cluster_of(with_settings(**serving))).items():
        _validate({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": group}, "spec": spec})


@EVERY_CONFIG
def test_the_operator_and_the_shell_read_the_same_ray_resources(name: str) -> None:
    """KubeRay strips the quotes and parses what is left as JSON; the shell hands Ray the same."""
    for group in cluster_of(objects_of(name))["workerGroupSpecs"]:
        written = group["rayStartParams"]["resources"]
        (heard,) = shlex.split(written)
        assert json.loads(written.strip("'\"` ")) == json.loads(heard)
        assert list(json.loads(heard)) == [f"kvrelay_{group['groupName']}"]


@EVERY_CONFIG
def test_every_set_stands_after_those_it_depends_on(name: str) -> None:
    seen: set[str] = set()
    for each in sets_of(name):
        assert set(each.depends_on) <= seen
        seen.add(each.name)


def test_the_ray_service_is_made_last_and_so_deleted_first() -> None:
    needs = {each.name: each.depends_on for each in sets_of("qwen3.5-9b")}

    def all_below(name: str) -> set[str]:
        return {name}.union(*(all_below(below) for below in needs[name]))

    assert all_below("ray-service") == set(needs)
    assert {"kuberay-crds", "namespaces"} <= all_below("kuberay-operator")


@EVERY_CONFIG
def test_each_set_is_small_enough_for_every_road(name: str) -> None:
    """A template of CloudFormation holds 1 MB, an annotation of kubectl apply 262144 bytes for one object."""
    sets = sets_of(name)
    assert all(len(json.dumps(each.objects)) < 200_000 for each in sets)
    assert sum(len(json.dumps(each.objects)) for each in sets) < 500_000
    assert all(len(json.dumps(one)) < 100_000 for each in sets for one in each.objects)


@EVERY_CONFIG
def test_no_two_objects_have_the_same_name(name: str) -> None:
    names = [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
        for each in objects_of(name)
    ]
    assert len(set(names)) == len(names)


def test_every_namespaced_object_names_its_namespace() -> None:
    cluster_wide = {"Namespace", "PriorityClass", "CustomResourceDefinition", "ClusterRole"}
    for each in objects_of("qwen3.5-9b"):
        assert ("namespace" in each["metadata"]) != (each["kind"] in cluster_wide), each["metadata"]["name"]


def test_the_same_input_gives_the_same_bytes() -> None:
    name = "qwen3-8b"
    again = charts(DEPLOYMENTS[name], example(name))
    assert [as_yaml(each) for each in again] == [as_yaml(each) for each in sets_of(name)]


@EVERY_CONFIG
def test_files_and_stack_carry_the_same_objects(name: str, tmp_path: Path) -> None:
    paths = write_files(sets_of(name), tmp_path)
    assert paths == sorted(paths)
    for path, each in zip(paths, sets_of(name), strict=True):
        assert path.name.endswith(f"-{each.name}.yaml")
        assert tuple(yaml.safe_load_all(path.read_text())) == each.objects


def test_files_of_charts_that_are_gone_go_too_and_others_stay(tmp_path: Path) -> None:
    for name in ("77-old-chart.yaml", "kustomization.yaml"):
        (tmp_path / name).write_text("{}")
    write_files(sets_of("qwen3.5-9b"), tmp_path)
    assert not (tmp_path / "77-old-chart.yaml").exists()
    assert (tmp_path / "kustomization.yaml").exists()


def test_the_command_writes_the_reference_deployment(tmp_path: Path) -> None:
    arguments = ["--deployment", str(PROJECT / "deployment.yaml"), "--output", str(tmp_path)]
    result = CliRunner().invoke(manifests, arguments, catch_exceptions=False)
    written = [Path(line) for line in result.output.split()]
    assert written == sorted(tmp_path.iterdir())
    found = [each for path in written for each in yaml.safe_load_all(path.read_text())]
    assert found == objects_of("qwen3.5-9b")


@EVERY_CONFIG
def test_the_objects_are_those_that_were_reviewed(name: str) -> None:
    """Snapshots of what depends on the serve config; KVRELAY_UPDATE_SNAPSHOTS=1 writes them anew for review."""
    _compare(SNAPSHOTS / name, {each.name: as_yaml(each) for each in sets_of(name) if _varies(each.name)})


def test_so_are_the_objects_that_all_of_them_share() -> None:
    shared = {each.name: as_yaml(each) for each in sets_of("qwen3.5-9b") if not _varies(each.name)}
    _compare(SNAPSHOTS / "shared", shared)
    for name in DEPLOYMENTS:
        assert {each.name: as_yaml(each) for each in sets_of(name) if not _varies(each.name)} == shared


def _varies(name: str) -> bool:
    return name in ("quota", "ray-service")


def _compare(folder: Path, texts: dict[str, str]) -> None:
    # Scripts are files of the project already.
    texts = {name: text for name, text in texts.items() if name != "worker-scripts"}
    if "KVRELAY_UPDATE_SNAPSHOTS" in os.environ:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / f"{name}.yaml").write_text(text)
    assert {path.stem: path.read_text() for path in folder.glob("*.yaml")} == texts


@pytest.mark.parametrize(
    ("name", "folder"),
    [("kvrelay-scripts", "constructs/kvrelay_k8s/scripts"), ("kvrelay-ingress", "kvrelay/ingress")],
)
def test_the_python_in_pods_is_the_projects_files(name: str, folder: str) -> None:
    data = find(objects_of("qwen3.5-9b"), "ConfigMap", name)["data"]
    assert data == {path.name: path.read_text() for path in (PROJECT / folder).glob("*.py")}


@pytest.mark.parametrize("config", DEPLOYMENTS)
def test_every_ray_pod_has_the_module_of_the_ingress_class_where_the_serve_config_says(config: str) -> None:
    service = find(objects_of(config), "RayService")["spec"]
    (application,) = yaml.safe_load(service["serveConfigV2"])["applications"]
    module = application["args"]["ingress_cls_config"]["ingress_cls"].partition(":")[0]
    folder = application["runtime_env"]["env_vars"]["PYTHONPATH"].split(":")[0]
    cluster = service["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        (mount,) = [each for each in pod["containers"][0]["volumeMounts"] if each["mountPath"] == folder]
        (volume,) = [each for each in pod["volumes"] if each["name"] == mount["name"]]
        held = find(objects_of(config), "ConfigMap", volume["configMap"]["name"])["data"]
        assert f"{module}.py" in held
