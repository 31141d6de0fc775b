"""deployment.yaml as typed, validated objects; the defaults are the reference deployment."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from kvrelay.settings.addresses import SubnetPlan, addresses_needed, wider_range
from kvrelay.settings.faults import SettingError, Shape
from kvrelay.settings.image_mirror import LONGEST_PULL_THROUGH_NAME, ImageMirror
from kvrelay.settings.instances import known_instance_type, smallest_with_efa
from kvrelay.settings.scheduling import DEPLOYMENT_TAG

Name = Annotated[
    str,
    Shape(
        r"[a-z]([a-z0-9-]{0,28}[a-z0-9])?", "1 to 30 lower-case letters, digits and dashes, a letter first"
    ),
]
Account = Annotated[str, Shape(r"\d{12}", "the 12 digits of an AWS account, in quotes")]
Region = Annotated[str, Shape(r"[a-z]{2}(-[a-z]+)+-\d", "an AWS region such as us-east-2")]
Zone = Annotated[str, Shape(r"[a-z]{2}(-[a-z]+)+-\d[a-z]", "an Availability Zone such as us-east-2a")]
GroupName = Annotated[
    str,
    Shape(
        r"[a-z]([a-z0-9-]{0,18}[a-z0-9])?", "1 to 20 lower-case letters, digits and dashes, a letter first"
    ),
]
Namespace = Annotated[
    str, Shape(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "1 to 63 lower-case letters, digits and dashes")
]
# KubeRay allows 47 characters of a RayService's name and wants it to start with a letter (DNS-1035).
ServiceName = Annotated[
    str,
    Shape(
        r"[a-z]([a-z0-9-]{0,45}[a-z0-9])?", "1 to 47 lower-case letters, digits and dashes, a letter first"
    ),
]
PrincipalArn = Annotated[
    str,
    Shape(
        r"arn:aws[a-z-]*:iam::\d{12}:(role|user)/[\w+=,.@/-]+",
        "an IAM role or user such as arn:aws:iam::123456789012:role/admin",
    ),
]
ReservationId = Annotated[
    str, Shape(r"cr-[0-9a-f]{17}", "a capacity reservation such as cr-0123456789abcdef0")
]
SecretName = Annotated[
    str,
    Shape(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", "a Kubernetes name: lower-case letters, digits, - and ."),
]
FeatureGate = Annotated[str, Shape(r"[A-Z][A-Za-z0-9]{1,62}", "a feature gate such as RayJobDeletionPolicy")]
Bucket = Annotated[str, Shape(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", "an S3 bucket's name")]
Prefix = Annotated[
    str,
    Shape(
        r"[\w.!*'()-]+(/[\w.!*'()-]+)*",
        "a folder in the bucket without slashes around it, such as models/qwen3.5-9b",
    ),
]
Image = Annotated[
    str,
    Shape(
        r"[\w.-]+(:\d+)?(/[\w.-]+)+(:[\w.-]+|@sha256:[0-9a-f]{64})",
        "registry/repository with a :tag or @sha256:digest",
    ),
]
Repository = Annotated[
    str,
    Shape(
        r"[A-Za-z0-9][\w-]*(@\d+)?/[\w.-]+(@\d+)?",
        "owner/name, or owner@id/name@id as the repository's OIDC settings show it",
    ),
]
GitLabProject = Annotated[
    str, Shape(r"[\w.-]+(/[\w.-]+)+", "a project's full path such as group/project, without the host")
]
GitLabHost = Annotated[str, Shape(r"[a-z0-9-]+(\.[a-z0-9-]+)+", "a host name such as gitlab.com")]
Branch = Annotated[str, Shape(r"[\w.-]+(/[\w.-]+)*", "one branch's name, without wildcards")]
Environment = Annotated[str, Shape(r"[\w.-]+", "an environment's name such as production")]
RuleNumber = Annotated[str, Shape(r"[A-Z]{2}\d{3}", "a rule's number such as KV003")]
RetentionDays = Literal[1, 3, 7, 14, 30, 60, 90, 180, 365]


class Settings(BaseModel):
    """What all parts of deployment.yaml share: unknown keys are errors, nothing changes after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Role(StrEnum):
    """The two phases of serving: prefill reads the prompt, decode writes the answer."""

    PREFILL = "prefill"
    DECODE = "decode"


class InterfaceEndpoint(StrEnum):
    """An AWS service reached privately, for an hourly price in each zone (kvrelay/data/service_prices.yaml)."""

    ECR_API = "ecr-api"
    ECR_DOCKER = "ecr-docker"
    STS = "sts"
    EC2 = "ec2"
    EKS = "eks"
    EKS_AUTH = "eks-auth"
    LOGS = "logs"
    SECRETS_MANAGER = "secrets-manager"


_PRIVATE_RANGES = tuple(
    map(ipaddress.IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"))
)


def _is_private(network: ipaddress.IPv4Network) -> bool:
    return any(network.subnet_of(private) for private in _PRIVATE_RANGES)


def _named_once(values: Sequence[str]) -> None:
    for index, value in enumerate(values):
        if value in values[:index]:
            raise SettingError((index,), str(value), "is named twice; name it once")


class Network(Settings):
    """The VPC: one public and one private subnet in each zone."""

    cidr: str = "10.0.0.0/16"
    """The VPC's IPv4 range, /16 to /22 (each pod takes an address of its subnet)."""
    nat_gateways: Literal["one", "one-per-zone"] = "one"
    """`one` is cheaper; `one-per-zone` survives the loss of a zone."""
    interface_endpoints: tuple[InterfaceEndpoint, ...] = ()
    """AWS services to reach without the NAT gateway. Each costs by the hour and zone."""
    flow_log_retention_days: RetentionDays = 30

    @field_validator("interface_endpoints")
    @classmethod
    def _each_once(cls, endpoints: tuple[InterfaceEndpoint, ...]) -> tuple[InterfaceEndpoint, ...]:
        _named_once(endpoints)
        return endpoints

    @field_validator("cidr")
    @classmethod
    def _usable_range(cls, cidr: str) -> str:
        try:
            network = ipaddress.IPv4Network(cidr)
        except ValueError:
            raise ValueError("is not an IPv4 range; write one such as 10.0.0.0/16") from None
        if not _is_private(network):
            raise ValueError(
                "is a public range; use one of 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10"
            )
        if network.prefixlen < 16:
            raise ValueError("is larger than a VPC may be; use /16 to /22")
        if network.prefixlen > 22:
            raise ValueError("is too small for the nodes and pods it must hold; use /16 to /22")
        if network.overlaps(ipaddress.IPv4Network("172.17.0.0/16")):
            raise ValueError(
                "overlaps 172.17.0.0/16, which the nodes' container runtime uses; use another range"
            )
        return cidr


class Cluster(Settings):
    """The EKS control plane and who may reach it."""

    kubernetes_version: Literal["1.36"] = "1.36"
    """The version that this release is tested with."""
    public_access_cidrs: tuple[str, ...] = ()
    """IPv4 ranges that reach the public API endpoint. Empty: the API answers inside the VPC only."""
    admins: tuple[PrincipalArn, ...] = ()
    """IAM roles or users that get cluster-admin, beside the role that deploys."""
    log_retention_days: RetentionDays = 30

    @field_validator("public_access_cidrs")
    @classmethod
    def _readable_ranges(cls, cidrs: tuple[str, ...]) -> tuple[str, ...]:
        for index, cidr in enumerate(cidrs):
            try:
                network = ipaddress.IPv4Network(cidr)
            except ValueError:
                raise SettingError(
                    (index,), cidr, "is not an IPv4 range; write one such as 203.0.113.7/32"
                ) from None
            if _is_private(network):
                raise SettingError(
                    (index,), cidr, "is a private range, which reaches the private endpoint anyway; remove it"
                )
        return cidrs

    @field_validator("admins")
    @classmethod
    def _each_once(cls, admins: tuple[str, ...]) -> tuple[str, ...]:
        _named_once(admins)
        return admins


class SystemNodes(Settings):
    """CPU nodes for the KubeRay operator, the Ray head and the cluster's own pods."""

    instance_type: str = "m7i.xlarge"
    count: Annotated[int, Field(ge=1, le=20)] = 1
    root_volume_gib: Annotated[int, Field(ge=20, le=16384)] = 50

    @field_validator("instance_type")
    @classmethod
    def _without_gpu(cls, name: str) -> str:
        if known_instance_type(name).gpu:
            raise ValueError(
                "has GPUs that system pods would leave idle; use a type without, such as m7i.xlarge"
            )
        return name


class OnDemand(Settings):
    """Pay by the second, available when the zone has room."""

    type: Literal["on-demand"] = "on-demand"


class Spot(Settings):
    """Cheaper, and taken back with two minutes' notice."""

    type: Literal["spot"]


class Reservation(Settings):
    """An On-Demand Capacity Reservation with targeted matching."""

    type: Literal["reservation"]
    reservation_id: ReservationId


class CapacityBlock(Settings):
    """A Capacity Block for ML: GPUs bought ahead for a span of time."""

    type: Literal["capacity-block"]
    reservation_id: ReservationId


Capacity = Annotated[OnDemand | Spot | Reservation | CapacityBlock, Field(discriminator="type")]


class GpuNodeGroup(Settings):
    """One EKS node group of GPU nodes with EFA."""

    name: GroupName = "gpu"
    roles: Annotated[tuple[Role, ...], Field(min_length=1, max_length=2)] = (Role.PREFILL, Role.DECODE)
    """Which engines run here."""
    instance_type: str = "g6.8xlarge"
    count: Annotated[int, Field(ge=1, le=1000)] = 2
    """Nodes that run."""
    max_count: Annotated[int | None, Field(ge=1, le=1000)] = None
    """The most nodes an upgrade or autoscaling may reach; `count` when left out."""
    capacity: Capacity = OnDemand()
    root_volume_gib: Annotated[int, Field(ge=100, le=16384)] = 200
    """The container image alone unpacks to tens of gigabytes."""
    image_pull: Literal["parallel", "sequential"] = "parallel"
    """`parallel` fetches and unpacks an image's layers side by side (SOCI; EKS calls it experimental)."""

    @field_validator("instance_type")
    @classmethod
    def _with_gpu_and_efa(cls, name: str) -> str:
        kind = known_instance_type(name)
        if not kind.gpu:
            raise ValueError("has no GPU; use a GPU type with EFA such as g6.8xlarge")
        if not kind.efa:
            raise ValueError(f"has no EFA; {smallest_with_efa(kind)}")
        return name

    @model_validator(mode="after")
    def _counts_in_order(self) -> Self:
        if self.max_count is not None and self.max_count < self.count:
            raise SettingError(("max_count",), self.max_count, f"is less than count {self.count}; raise it")
        if len(set(self.roles)) != len(self.roles):
            raise SettingError(("roles",), None, f"names {self.roles[0]} twice; name each role once")
        return self

    @property
    def largest_count(self) -> int:
        """The most nodes this group may have."""
        return self.max_count or self.count


class GpuNodes(Settings):
    """The GPU nodes. EFA traffic stays within one zone, so all groups share it."""

    zone: Zone = "us-east-2a"
    placement_group: bool = False
    """Put the nodes close together (cluster placement). Not with a capacity reservation made without one."""
    groups: Annotated[tuple[GpuNodeGroup, ...], Field(min_length=1, max_length=2)] = (GpuNodeGroup(),)

    @model_validator(mode="after")
    def _each_role_has_one_group(self) -> Self:
        names = [group.name for group in self.groups]
        if len(set(names)) != len(names):
            raise SettingError(
                ("groups", 1, "name"), names[1], "is the first group's name too; give each its own"
            )
        for role in Role:
            holders = [group.name for group in self.groups if role in group.roles]
            if len(holders) != 1:
                found = f"in {len(holders)} groups ({', '.join(holders)})" if holders else "in no group"
                raise SettingError(
                    ("groups",), None, f"the role {role} is {found}; name it in exactly one group's roles"
                )
        return self

    def group_for(self, role: Role) -> GpuNodeGroup:
        """The node group whose nodes run `role`."""
        return next(group for group in self.groups if role in group.roles)


class HuggingFaceWeights(Settings):
    """Weights from the Hugging Face hub, by the model id that the serve config names."""

    source: Literal["hugging-face"] = "hugging-face"
    token_secret_name: Annotated[str | None, StringConstraints(min_length=1, max_length=512)] = None
    """An AWS Secrets Manager secret that holds the token of a gated model. Synth never reads it."""
    token_kubernetes_secret: SecretName | None = None
    """A Kubernetes Secret of the served namespace that holds the token instead, under the key `token`."""

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        if self.token_secret_name and self.token_kubernetes_secret:
            raise SettingError(
                ("token_kubernetes_secret",),
                self.token_kubernetes_secret,
                "is a second token beside token_secret_name; keep one of them",
            )
        return self


class S3Weights(Settings):
    """Weights from a bucket of yours, copied once to each node's NVMe."""

    source: Literal["s3"]
    bucket: Bucket
    prefix: Prefix
    """Folder in the bucket, without slashes around it."""


Weights = Annotated[HuggingFaceWeights | S3Weights, Field(discriminator="source")]


class Serving(Settings):
    """What is served, and how its pods run."""

    serve_config: str = "serve_configs/qwen3.5-9b.yaml"
    """A Ray Serve config; a relative path counts from the deployment file."""
    namespace: Namespace = "inference"
    service_name: ServiceName = "ray-llm"
    image: Image = "public.ecr.aws/deep-learning-containers/ray:serve-llm-cuda-v1.0"
    """AWS's Ray LLM container, or your own on top of it; with a tag or digest."""
    security_profile: Literal["privileged", "ipc-lock"] = "privileged"
    """`privileged`: what AWS needed to register CUDA memory with EFA. `ipc-lock`: narrower, try it first."""
    hugepages_mib: Annotated[int, Field(ge=0, le=65536, multiple_of=2)] = 0
    """Huge pages (2 MiB each) for each worker, which libfabric then uses; the nodes must have set them aside."""
    weights: Weights = HuggingFaceWeights()
    upgrade: Literal["in-place", "surge"] = "in-place"
    """`surge` builds the new Ray cluster beside the old one: set max_count to twice count."""
    operator_feature_gates: dict[FeatureGate, bool] = {}
    """KubeRay's feature gates that differ from its defaults."""

    @field_validator("image")
    @classmethod
    def _pinned(cls, image: str) -> str:
        if image.endswith(":latest"):
            raise ValueError(
                "uses the tag latest, which changes under a running service; name a version or digest"
            )
        return image

    @field_validator("namespace")
    @classmethod
    def _not_a_system_namespace(cls, namespace: str) -> str:
        if namespace == "default" or namespace.startswith("kube-"):
            raise ValueError("belongs to Kubernetes; choose a namespace of your own, such as inference")
        return namespace


class Images(Settings):
    """Where nodes pull container images from."""

    mirror: Literal["none", "ecr", "pull-through"] = "none"
    """`ecr`: copies that `kvrelay mirror` makes in the account. `pull-through`: ECR fetches at the first pull."""


class GitHubCi(Settings):
    """IAM roles that the workflows of one GitHub repository take by OIDC: docs/ci.md."""

    type: Literal["github"]
    repository: Repository
    """owner/name; for repositories made or renamed since June 2026 owner@id/name@id, as its OIDC settings show."""
    branch: Branch = "main"
    """What is deployed and watched for drift."""
    environment: Environment = "production"
    """The repository's environment whose reviewers approve each deployment; only its jobs may deploy."""
    oidc_provider: Literal["create", "existing"] = "create"
    """An account holds one provider for GitHub: `existing` when it has it already."""


class GitLabCi(Settings):
    """IAM roles that the pipelines of one GitLab project take by OIDC: docs/ci.md."""

    type: Literal["gitlab"]
    project: GitLabProject
    branch: Branch = "main"
    """What is deployed and watched for drift; protect it: GitLab's tokens name no environment to AWS."""
    host: GitLabHost = "gitlab.com"
    oidc_provider: Literal["create", "existing"] = "create"
    """An account holds one provider for a GitLab host: `existing` when it has it already."""


Ci = Annotated[GitHubCi | GitLabCi, Field(discriminator="type")]


class Deployment(Settings):
    """One deployment: where it runs, on which nodes, what it serves."""

    name: Name = "kvrelay"
    """Names the stacks, the cluster and its tags: at most 30 lower-case letters, digits and dashes."""
    account: Account | None = None
    """The only AWS account this may be deployed to; any when left out. Quote it: it is text."""
    region: Region = "us-east-2"
    zones: Annotated[tuple[Zone, ...], Field(min_length=2, max_length=6)] = ("us-east-2a", "us-east-2b")
    """EKS needs two at least. Named here, so that synth asks AWS nothing and nodes never move by surprise."""
    network: Network = Network()
    cluster: Cluster = Cluster()
    system_nodes: SystemNodes = SystemNodes()
    gpu_nodes: GpuNodes = GpuNodes()
    images: Images = Images()
    serving: Serving = Serving()
    ci: Ci | None = None
    """The repository whose pipelines diff and deploy this; adds a stack with their roles."""
    tags: dict[
        Annotated[str, StringConstraints(min_length=1, max_length=128)],
        Annotated[str, StringConstraints(max_length=256)],
    ] = {}
    """Tags on every resource."""
    acknowledge: dict[RuleNumber, str] = {}
    """Rules whose findings you accept: rule number to the reason why."""

    @field_validator("tags")
    @classmethod
    def _taggable(cls, tags: dict[str, str]) -> dict[str, str]:
        for key, value in tags.items():
            if key.lower().startswith("aws:"):
                raise SettingError(
                    (key,), value, "has a key that begins with aws:, which belongs to AWS; rename it"
                )
            if not re.fullmatch(r"[\w .:/=+@-]*", key + value):
                raise SettingError(
                    (key,), value, "may hold letters, digits, spaces and _ . : / = + - @ only; rewrite it"
                )
        return tags

    @field_validator("acknowledge")
    @classmethod
    def _with_a_reason(cls, acknowledge: dict[str, str]) -> dict[str, str]:
        for rule, reason in acknowledge.items():
            if len(reason.split()) < 2:
                raise SettingError(
                    (rule,), reason, "is no reason; write in a few words why you accept this finding"
                )
        return acknowledge

    @model_validator(mode="after")
    def _zones_belong_together(self) -> Self:
        for index, zone in enumerate(self.zones):
            if zone[:-1] != self.region:
                raise SettingError(
                    ("zones", index), zone, f"is not in the region {self.region}; name zones of that region"
                )
            if zone in self.zones[:index]:
                raise SettingError(
                    ("zones", index), zone, "is named twice; name two different zones at least"
                )
        if self.gpu_nodes.zone not in self.zones:
            raise SettingError(
                ("gpu_nodes", "zone"),
                self.gpu_nodes.zone,
                f"is not among zones ({', '.join(self.zones)}); add it there",
            )
        return self

    @model_validator(mode="after")
    def _mirror_can_be_named(self) -> Self:
        mirror = self.images.mirror
        if mirror == "none":
            return self
        if self.account is None:
            raise SettingError(
                ("images", "mirror"),
                mirror,
                "needs the account that holds the images; add account: with its 12 digits",
            )
        if mirror == "pull-through" and ("--" in self.name or len(self.name) > LONGEST_PULL_THROUGH_NAME):
            raise SettingError(
                ("name",),
                self.name,
                f"can't begin a pull-through rule's prefix; use {LONGEST_PULL_THROUGH_NAME} characters at most, "
                "without two dashes in a row",
            )
        if mirror == "pull-through" and not ImageMirror.of(self).holds(self.serving.image):
            raise SettingError(
                ("serving", "image"),
                self.serving.image,
                "is in a registry that ECR can't cache without credentials; set images.mirror: ecr, or none",
            )
        return self

    @model_validator(mode="after")
    def _addresses_suffice(self) -> Self:
        plan = SubnetPlan.of(self.network.cidr, len(self.zones))
        needed = addresses_needed(
            [(self.system_nodes.instance_type, self.system_nodes.count + 1)]
            + [(group.instance_type, group.largest_count) for group in self.gpu_nodes.groups]
        )
        if needed > plan.usable_private_addresses:
            raise SettingError(
                ("network", "cidr"),
                self.network.cidr,
                f"gives each private subnet {plan.usable_private_addresses} usable addresses; the nodes of "
                f"{self.gpu_nodes.zone} and their pods may take {needed}; {wider_range(needed, len(self.zones))}",
            )
        return self

    @property
    def all_tags(self) -> dict[str, str]:
        """The deployment's own tag and those of the file."""
        return {DEPLOYMENT_TAG: self.name, **self.tags}
