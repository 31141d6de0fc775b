"""The CDK app: reads the deployment and makes its stacks."""

import sys
from pathlib import Path
from typing import Any

import aws_cdk as cdk

from kvrelay.errors import UserError
from kvrelay.planner.summary import summary_line
from kvrelay.rules import check_all
from kvrelay.rules.reading import subject_of
from kvrelay.serve_app import load_serve_app
from kvrelay.settings import DeploymentFile, read_deployment
from kvrelay_aws.findings import annotate
from stacks.ci_roles import CiRolesStack
from stacks.cluster import ClusterStack
from stacks.network import NetworkStack
from stacks.serving import ServingStack


def build(app: cdk.App, source: DeploymentFile) -> None:
    """Adds the deployment's three stacks to `app`."""
    deployment = source.deployment
    serve_app = load_serve_app(source.serve_config_path)
    environment = cdk.Environment(account=deployment.account, region=deployment.region)

    network = NetworkStack(app, "Network", deployment=deployment, env=environment)
    cluster = ClusterStack(app, "Cluster", deployment=deployment, vpc=network.vpc, env=environment)
    serving = ServingStack(
        app, "Serving", deployment=deployment, serve_app=serve_app, cluster=cluster.cluster, env=environment
    )
    if deployment.ci:
        CiRolesStack(app, "Ci", deployment=deployment, ci=deployment.ci, env=environment)
    annotate(serving, check_all(subject_of(source)), summary_line(deployment, serve_app))

    for key, value in deployment.all_tags.items():
        cdk.Tags.of(app).add(key, value)


def new_app(**properties: Any) -> cdk.App:
    """An empty app without creation stack traces: they hold temporary paths, and synth must repeat itself."""
    return cdk.App(
        stack_traces=False, post_cli_context={"aws:cdk:disable-creation-stack-traces": True}, **properties
    )


def main() -> None:
    """What `cdk` runs; `-c deployment=FILE` picks another file than deployment.yaml."""
    app = new_app()
    # Without validation (CDK_VALIDATION=false) nothing replaces it, and `cdk` would report what the last synth found.
    Path(app.outdir, "validation-report.json").unlink(missing_ok=True)
    try:
        build(app, read_deployment(Path(app.node.try_get_context("deployment") or "deployment.yaml")))
    except UserError as error:
        sys.exit(str(error))
    app.synth()


if __name__ == "__main__":
    main()
