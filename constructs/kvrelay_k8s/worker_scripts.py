"""The scripts that workers run beside Ray, as files in their pods."""

from importlib import resources

from cdk8s import ApiObjectMetadata, Chart
from cdk8s_plus_28 import ConfigMap
from constructs import Construct

from kvrelay.settings import Deployment
from kvrelay_k8s.names import labels
from kvrelay_k8s.ray_container import SCRIPTS_CONFIG_MAP

_SCRIPTS = ("drain.py", "fetch.py")


class WorkerScripts(Chart):
    """A ConfigMap of its own, so that a change of the serve config shows as that alone."""

    def __init__(self, scope: Construct, id: str, *, deployment: Deployment) -> None:
        super().__init__(scope, id, disable_resource_name_hashes=True)
        folder = resources.files("kvrelay_k8s") / "scripts"
        ConfigMap(
            self,
            "Scripts",
            metadata=ApiObjectMetadata(
                name=SCRIPTS_CONFIG_MAP, namespace=deployment.serving.namespace, labels=labels("scripts")
            ),
            data={name: (folder / name).read_text(encoding="utf-8") for name in _SCRIPTS},
        )
