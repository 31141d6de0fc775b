"""The project's own Python in Ray's pods: the scripts that workers run beside Ray, and the app's ingress class."""

from collections.abc import Iterable
from pathlib import Path

from cdk8s import ApiObjectMetadata, Chart
from cdk8s_plus_28 import ConfigMap
from constructs import Construct

from kvrelay.serve_app import INGRESS_MODULE
from kvrelay.settings import Deployment
from kvrelay_k8s.names import labels
from kvrelay_k8s.ray_container import INGRESS_CONFIG_MAP, SCRIPTS_CONFIG_MAP

_SCRIPTS = [Path(__file__).parent / "scripts" / name for name in ("drain.py", "fetch.py")]


class WorkerScripts(Chart):
    """ConfigMaps of their own, so that a change of the serve config shows as that alone."""

    def __init__(self, scope: Construct, id: str, *, deployment: Deployment) -> None:
        super().__init__(scope, id, disable_resource_name_hashes=True)
        self._namespace = deployment.serving.namespace
        self._files("Scripts", SCRIPTS_CONFIG_MAP, _SCRIPTS)
        self._files("Ingress", INGRESS_CONFIG_MAP, [INGRESS_MODULE])

    def _files(self, id: str, name: str, files: Iterable[Path]) -> None:
        ConfigMap(
            self,
            id,
            metadata=ApiObjectMetadata(name=name, namespace=self._namespace, labels=labels(id.lower())),
            data={file.name: file.read_text(encoding="utf-8") for file in files},
        )
