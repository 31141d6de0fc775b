"""Where a cluster's API answers and who we are there: EKS says where, IAM or a kubeconfig says who."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvrelay.errors import UserError
from kvrelay.ops.preflight.aws import Aws

# The longest an authenticator takes the URL for; the token made of it is accepted for 15 minutes.
# https://docs.aws.amazon.com/eks/latest/userguide/cluster-auth.html
_URL_SECONDS = 60
_PREFIX = "k8s-aws-v1."
_CLUSTER_HEADER = "x-k8s-aws-id"


@dataclass(frozen=True)
class Access:
    """A way into one cluster. `kubeconfig` and `context` are set where a kubeconfig's user is taken, else `token`."""

    url: str
    ca_pem: str
    token: Callable[[], str] | None = field(default=None, repr=False)
    kubeconfig: str = ""
    context: str = ""


def find_access(aws: Aws, cluster: str) -> Access:
    """The way to the EKS cluster of that name.

    The caller's IAM identity is used, as `aws eks get-token` does; where KUBECONFIG names a context of this very API
    server, that context's user is. Raises UserError: no such cluster, or none of its API yet; botocore's errors pass.
    """
    eks = aws.client("eks")
    try:
        found = eks.describe_cluster(name=cluster)["cluster"]
    except eks.exceptions.ResourceNotFoundException:
        raise UserError(f"there is no EKS cluster {cluster} in {aws.region}; run: kvrelay deploy") from None
    if not found.get("endpoint"):
        raise UserError(f"the EKS cluster {cluster} is {found['status']} and has no API endpoint yet")
    url = str(found["endpoint"])
    authority = base64.b64decode(found["certificateAuthority"]["data"]).decode()
    for path, context in _contexts(url):
        return Access(url, authority, kubeconfig=path, context=context)
    return Access(url, authority, token=lambda: iam_token(aws.region, cluster))


def reach(region: str, cluster: str) -> Access:
    """`find_access` for a command that can't go on without: AWS's refusals are a UserError too."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return find_access(Aws(region), cluster)
    except (BotoCoreError, ClientError) as error:
        raise UserError(f"AWS: {' '.join(str(error).split())[:300]}; sign in and try again") from None


def kubeconfig(access: Access) -> Any:
    """The Kubernetes client's configuration of a kubeconfig's user. Raises UserError when it can't be used."""
    from kubernetes import client, config

    configuration = client.Configuration()
    try:
        config.load_kube_config(access.kubeconfig, access.context, configuration)
    except (config.ConfigException, OSError) as error:
        raise UserError(f"KUBECONFIG {access.kubeconfig}: {' '.join(str(error).split())[:300]}") from None
    return configuration


def iam_token(region: str, cluster: str) -> str:
    """A bearer token for the cluster: a presigned call that tells its API server whose credentials these are."""
    import boto3
    from botocore.exceptions import NoCredentialsError
    from botocore.signers import RequestSigner

    session = boto3.Session(region_name=region)
    credentials = session.get_credentials()
    if credentials is None:
        raise NoCredentialsError
    sts = session.client("sts")
    signer = RequestSigner(
        sts.meta.service_model.service_id, region, "sts", "v4", credentials, session.events
    )
    request: dict[str, Any] = {
        "method": "GET",
        "url": f"{sts.meta.endpoint_url}/?Action=GetCallerIdentity&Version=2011-06-15",
        "body": {},
        "headers": {_CLUSTER_HEADER: cluster},
        "context": {},
    }
    url = signer.generate_presigned_url(
        request, region_name=region, expires_in=_URL_SECONDS, operation_name=""
    )
    return _PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def _contexts(url: str) -> list[tuple[str, str]]:
    """Files of KUBECONFIG and their contexts that lead to the API server at `url`."""
    import yaml

    found = []
    for path in filter(None, os.environ.get("KUBECONFIG", "").split(os.pathsep)):
        try:
            content = yaml.safe_load(Path(path).read_text())
            servers = {each["name"]: each["cluster"]["server"] for each in content["clusters"]}
            contexts = [(each["name"], each["context"]["cluster"]) for each in content["contexts"]]
        except (OSError, yaml.YAMLError, KeyError, TypeError):
            continue
        same = [name for name, cluster in contexts if servers.get(cluster, "").rstrip("/") == url.rstrip("/")]
        found += [
            (path, name) for name in sorted(same, key=lambda name: name != content.get("current-context"))
        ]
    return found
