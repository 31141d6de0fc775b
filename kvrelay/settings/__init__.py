"""deployment.yaml: the one file that a user edits."""

from kvrelay.settings.deployment import (
    Capacity,
    CapacityBlock,
    Cluster,
    Deployment,
    GpuNodeGroup,
    GpuNodes,
    HuggingFaceWeights,
    Images,
    InterfaceEndpoint,
    Network,
    OnDemand,
    Reservation,
    Role,
    S3Weights,
    Serving,
    Spot,
    SystemNodes,
)
from kvrelay.settings.image_mirror import ImageMirror, ImageReference, split_image
from kvrelay.settings.reading import DeploymentFile, read_deployment

__all__ = [
    "Capacity",
    "CapacityBlock",
    "Cluster",
    "Deployment",
    "DeploymentFile",
    "GpuNodeGroup",
    "GpuNodes",
    "HuggingFaceWeights",
    "ImageMirror",
    "ImageReference",
    "Images",
    "InterfaceEndpoint",
    "Network",
    "OnDemand",
    "Reservation",
    "Role",
    "S3Weights",
    "Serving",
    "Spot",
    "SystemNodes",
    "read_deployment",
    "split_image",
]
