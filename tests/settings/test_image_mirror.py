"""What nodes pull for an image, with each kind of mirror."""

from __future__ import annotations

import pytest

from kvrelay.settings import Deployment, ImageMirror, Images, Serving, split_image
from kvrelay.settings.image_mirror import PULL_THROUGH

RAY = "public.ecr.aws/deep-learning-containers/ray:serve-llm-cuda-v1.0"
DIGEST = f"sha256:{'0' * 64}"
OWN = "123456789012.dkr.ecr.us-east-2.amazonaws.com"


def mirror(mode: str, image: str) -> ImageMirror:
    """As a deployment of its own has it; one that pull-through can't serve is served beside the usual one."""
    served = image if mode != "pull-through" or split_image(image).registry in PULL_THROUGH else RAY
    return ImageMirror.of(
        Deployment(
            account="123456789012",
            images=Images.model_validate({"mirror": mode}),
            serving=Serving(image=served),
        )
    )


@pytest.mark.parametrize(
    ("mode", "image", "pulled"),
    [
        ("none", RAY, RAY),
        ("ecr", RAY, f"{OWN}/kvrelay/deep-learning-containers/ray:serve-llm-cuda-v1.0"),
        ("ecr", f"ghcr.io/team/ray@{DIGEST}", f"{OWN}/kvrelay/team/ray@{DIGEST}"),
        (
            "ecr",
            "nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
            f"{OWN}/kvrelay/nvidia/k8s-device-plugin:v0.20.0",
        ),
        ("ecr", f"{OWN}/ours/ray:v1", f"{OWN}/ours/ray:v1"),
        ("pull-through", RAY, f"{OWN}/kvrelay/ecr/deep-learning-containers/ray:serve-llm-cuda-v1.0"),
        ("pull-through", "quay.io/kuberay/operator:v1.7.0", f"{OWN}/kvrelay/quay/kuberay/operator:v1.7.0"),
        (
            "pull-through",
            "nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
            "nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
        ),
    ],
)
def test_nodes_pull_from_the_mirror_what_it_holds(mode: str, image: str, pulled: str) -> None:
    assert mirror(mode, image).reference(image) == pulled


def test_china_has_a_registry_domain_of_its_own() -> None:
    deployment = Deployment(
        account="123456789012",
        region="cn-north-1",
        zones=("cn-north-1a", "cn-north-1b"),
        gpu_nodes={"zone": "cn-north-1a"},
        images=Images(mirror="ecr"),
    )
    assert ImageMirror.of(deployment).registry == "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn"


@pytest.mark.parametrize("image", [RAY, f"quay.io/a/b@{DIGEST}", "localhost:5000/a/b/c:v1", f"{OWN}/x:y"])
def test_a_reference_survives_being_split(image: str) -> None:
    assert str(split_image(image)) == image
