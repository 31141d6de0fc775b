"""User data of AL2023 nodes: what nodeadm reads beside what EKS itself adds."""

import base64

_BOUNDARY = "kvrelay"
# Without a strategy an instance store stays unused; RAID0 also moves containerd and kubelet onto it.
# https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/
_RAID0 = """\
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  instance:
    localStorage:
      strategy: RAID0
"""


def user_data_with_local_storage() -> str:
    """Base64 user data that stripes the instance store into one RAID0 volume. EKS merges its own part in."""
    document = (
        f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{_BOUNDARY}"\n\n'
        f"--{_BOUNDARY}\nContent-Type: application/node.eks.aws\n\n{_RAID0}\n--{_BOUNDARY}--\n"
    )
    return base64.b64encode(document.encode()).decode()
