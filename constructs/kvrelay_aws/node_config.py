"""User data of AL2023 nodes: what nodeadm reads beside what EKS itself adds."""

import base64
from typing import Any

import yaml

_BOUNDARY = "kvrelay"


def user_data(*, local_storage: bool, parallel_pull: bool) -> str | None:
    """Base64 user data for nodeadm; None when its defaults will do. EKS merges its own part in.

    `local_storage` stripes the instance store into one RAID0 volume. Without a strategy it stays unused; with it,
    containerd, kubelet and the SOCI snapshotter keep their files there.
    `parallel_pull` fetches and unpacks an image's layers side by side: from AMI release v20250821, and on the
    instance store from v20251217. On a disk slower than 600 MiB/s it is slower than one layer after the other.
    https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/
    """
    spec: dict[str, Any] = {}
    if local_storage:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    if parallel_pull:
        spec["featureGates"] = {"FastImagePull": True}
    if not spec:
        return None
    config = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}
    head = f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{_BOUNDARY}"\n'
    part = f"Content-Type: application/node.eks.aws\n\n{yaml.safe_dump(config, sort_keys=False)}"
    document = f"{head}\n--{_BOUNDARY}\n{part}\n--{_BOUNDARY}--\n"
    return base64.b64encode(document.encode()).decode()
