"""Facts as data: instance types, GPUs, prices, versions, quotas. Every file says its source and date.

A look-up reads only the file that holds the answer, once. Unknown names raise `UnknownNameError` (a UserError)
with the closest known names; unknown prices are None.

    instance_type("g6.8xlarge").gpu.kind        # "L4"
    price("g6.8xlarge", "us-east-2")            # 2.0144, USD an hour, or None
    service_prices("us-east-2").nat_gateway_hour
    versions().eks_addons["vpc-cni"]
    vcpu_quota(instance_type("g6.8xlarge")).code
    offered("g6.8xlarge", "eu-west-1")          # False; None where the data says nothing
"""

from kvrelay.data.gpus import Gpu, all_gpus, gpu
from kvrelay.data.instances import (
    EfaRdma,
    InstanceGpus,
    InstanceType,
    NetworkCard,
    Nvme,
    QuotaFamily,
    instance_type,
    instance_types,
)
from kvrelay.data.prices import (
    HOURS_PER_MONTH,
    ServicePrices,
    price,
    price_date,
    priced_regions,
    service_prices,
)
from kvrelay.data.quotas import Purchase, Quota, quotas, vcpu_quota
from kvrelay.data.regions import known_regions, offered, regions_offering
from kvrelay.data.unknown import UnknownNameError
from kvrelay.data.versions import (
    ContainerVersions,
    Versions,
    container_versions,
    known_container_tags,
    versions,
)

__all__ = [
    "HOURS_PER_MONTH",
    "ContainerVersions",
    "EfaRdma",
    "Gpu",
    "InstanceGpus",
    "InstanceType",
    "NetworkCard",
    "Nvme",
    "Purchase",
    "Quota",
    "QuotaFamily",
    "ServicePrices",
    "UnknownNameError",
    "Versions",
    "all_gpus",
    "container_versions",
    "gpu",
    "instance_type",
    "instance_types",
    "known_container_tags",
    "known_regions",
    "offered",
    "price",
    "price_date",
    "priced_regions",
    "quotas",
    "regions_offering",
    "service_prices",
    "vcpu_quota",
    "versions",
]
