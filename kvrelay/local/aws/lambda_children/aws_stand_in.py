"""The two commands of the AWS CLI that CDK's kubectl handler runs: `eks update-kubeconfig` and `eks get-token`."""

import argparse
import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any


def main() -> int:
    """Runs one command; anything else is refused by name."""
    parser = argparse.ArgumentParser(prog="aws")
    parser.add_argument("--region", default=os.environ.get("AWS_REGION", ""))
    services = parser.add_subparsers(dest="service", required=True)
    commands = services.add_parser("eks").add_subparsers(dest="command", required=True)
    update = commands.add_parser("update-kubeconfig")
    update.add_argument("--name", required=True)
    update.add_argument("--kubeconfig", default=str(Path.home() / ".kube" / "config"))
    update.add_argument("--role-arn")
    update.add_argument("--region", default=os.environ.get("AWS_REGION", ""))
    token = commands.add_parser("get-token")
    token.add_argument("--cluster-name", required=True)
    token.add_argument("--region", default=os.environ.get("AWS_REGION", ""))
    options = parser.parse_args()
    try:
        if options.command == "get-token":
            sys.stdout.write(json.dumps(_token(options.cluster_name, options.region)))
        else:
            _update(options)
    except urllib.error.HTTPError as error:
        sys.stderr.write(f"\nAn error occurred: {error.read().decode(errors='replace')}\n")
        return 254
    return 0


def _ask(path: str, region: str) -> Any:
    scope = f"{os.environ['AWS_ACCESS_KEY_ID']}/20260101/{region}/eks/aws4_request"
    request = urllib.request.Request(
        os.environ["AWS_ENDPOINT_URL"] + path,
        headers={"Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def _token(cluster: str, region: str) -> Any:
    query = urllib.parse.urlencode({"region": region, "cluster": cluster})
    answer = _ask(f"/_kvrelay/kubernetes-token?{query}", region)
    return {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "kind": "ExecCredential",
        "spec": {},
        "status": {"token": answer["token"]},
    }


def _update(options: argparse.Namespace) -> None:
    cluster = _ask(f"/clusters/{urllib.parse.quote(options.name)}", options.region)["cluster"]
    arn = cluster["arn"]
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": arn,
                "cluster": {
                    "server": cluster["endpoint"],
                    "certificate-authority-data": cluster["certificateAuthority"]["data"],
                },
            }
        ],
        "contexts": [{"name": arn, "context": {"cluster": arn, "user": arn}}],
        "current-context": arn,
        "users": [
            {
                "name": arn,
                "user": {
                    "exec": {
                        "apiVersion": "client.authentication.k8s.io/v1beta1",
                        "command": "aws",
                        "args": [
                            "--region",
                            options.region,
                            "eks",
                            "get-token",
                            "--cluster-name",
                            options.name,
                        ],
                        "interactiveMode": "Never",
                    }
                },
            }
        ],
    }
    file = Path(options.kubeconfig)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(config))
    sys.stdout.write(f"Added new context {arn} to {file}\n")


if __name__ == "__main__":
    sys.exit(main())
