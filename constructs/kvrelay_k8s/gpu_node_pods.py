"""What device plugins share: where they run, and how little they may do there."""

from cdk8s_plus_28 import k8s

from kvrelay.settings.scheduling import GPU_WORKER_ROLE, ROLE_LABEL
from kvrelay_k8s.names import SYSTEM_NAMESPACE, labels

_DEVICE_PLUGINS = "/var/lib/kubelet/device-plugins"


def device_plugin(
    name: str,
    *,
    image: str,
    env: dict[str, str],
    host_paths: dict[str, str],
    host_network: bool = False,
    command: list[str] | None = None,
) -> k8s.KubeDaemonSetProps:
    """A DaemonSet on every GPU node, by our own label alone: no list of instance types can leave it at zero.

    `host_paths` are directories of the node that it sees under the same path, with their volume names.
    """
    mounts = {"device-plugins": _DEVICE_PLUGINS, **{volume: path for path, volume in host_paths.items()}}
    selector = {"app.kubernetes.io/name": name}
    container = k8s.Container(
        name=name,
        image=image,
        command=command,
        env=[k8s.EnvVar(name=key, value=value) for key, value in env.items()] or None,
        security_context=k8s.SecurityContext(
            allow_privilege_escalation=False, capabilities=k8s.Capabilities(drop=["ALL"])
        ),
        resources=k8s.ResourceRequirements(
            requests={"cpu": k8s.Quantity.from_string("20m"), "memory": k8s.Quantity.from_string("64Mi")},
            limits={"memory": k8s.Quantity.from_string("256Mi")},
        ),
        volume_mounts=[k8s.VolumeMount(name=volume, mount_path=path) for volume, path in mounts.items()],
    )
    return k8s.KubeDaemonSetProps(
        metadata=k8s.ObjectMeta(
            name=name, namespace=SYSTEM_NAMESPACE, labels={**selector, **labels("device-plugin")}
        ),
        spec=k8s.DaemonSetSpec(
            selector=k8s.LabelSelector(match_labels=selector),
            template=k8s.PodTemplateSpec(
                metadata=k8s.ObjectMeta(labels={**selector, **labels("device-plugin")}),
                spec=k8s.PodSpec(
                    containers=[container],
                    node_selector={ROLE_LABEL: GPU_WORKER_ROLE},
                    # Device plugins come before whatever else keeps pods off a node.
                    tolerations=[k8s.Toleration(operator="Exists")],
                    priority_class_name="system-node-critical",
                    automount_service_account_token=False,
                    host_network=host_network or None,
                    volumes=[
                        k8s.Volume(name=volume, host_path=k8s.HostPathVolumeSource(path=path))
                        for volume, path in mounts.items()
                    ],
                ),
            ),
        ),
    )
