"""Serving: what changes daily and deploys in a minute."""

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from kvrelay.serve_app import ServeApp
from kvrelay.settings import Deployment
from kvrelay_aws.manifests import Manifests
from kvrelay_aws.weights_access import WeightsAccess
from kvrelay_k8s import RAY_SERVICE_ACCOUNT, charts
from stacks.deployment_stack import DeploymentStack


class ServingStack(DeploymentStack):
    """The Kubernetes objects of one served model."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        deployment: Deployment,
        serve_app: ServeApp,
        cluster: eks.ICluster,
        env: cdk.Environment,
    ) -> None:
        super().__init__(
            scope,
            id,
            deployment=deployment,
            description="kvrelay: device plugins, KubeRay operator and the Ray service",
            env=env,
        )
        manifests = Manifests(self, "Manifests", cluster=cluster, sets=charts(deployment, serve_app))
        # A pod gets its identity when it starts, and never later.
        manifests.node.add_dependency(
            WeightsAccess(
                self,
                "WeightsAccess",
                cluster=cluster,
                deployment=deployment,
                service_account=RAY_SERVICE_ACCOUNT,
            )
        )

        serving = deployment.serving
        self.output("Namespace", serving.namespace, "Where the model is served")
        self.output("ServiceName", serving.service_name, "The RayService")
        self.output("ModelId", serve_app.model_id, 'What clients send as "model"')
