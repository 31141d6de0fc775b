"""Failures on demand: a resource type that fails once, some times, or always, with the message AWS gives."""

import threading
from dataclasses import dataclass

INSUFFICIENT_CAPACITY = (
    "CREATE_FAILED: AsgInstanceLaunchFailures: Could not launch On-Demand Instances. "
    "InsufficientInstanceCapacity - We currently do not have sufficient g6.8xlarge capacity in the "
    "Availability Zone you requested. Our system will be working on provisioning additional capacity. "
    "Launching EC2 instance failed."
)
VCPU_LIMIT_EXCEEDED = (
    "CREATE_FAILED: AsgInstanceLaunchFailures: Could not launch On-Demand Instances. VcpuLimitExceeded - "
    "You have requested more vCPU capacity than your current vCPU limit of 0 allows for the instance bucket "
    "that the specified instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request "
    "to request an adjustment to this limit. Launching EC2 instance failed."
)
ADDRESS_LIMIT_EXCEEDED = (
    "The maximum number of addresses has been reached. (Service: Ec2, Status Code: 400, "
    "Request ID: 00000000-0000-0000-0000-000000000000)"
)
VPC_LIMIT_EXCEEDED = (
    "The maximum number of VPCs has been reached. (Service: Ec2, Status Code: 400, "
    "Request ID: 00000000-0000-0000-0000-000000000000)"
)
ACCESS_DENIED = (
    "User: arn:aws:sts::123456789012:assumed-role/cdk-hnb659fds-cfn-exec-role/AWSCloudFormation is not "
    "authorized to perform this action because no identity-based policy allows it"
)


@dataclass
class Fault:
    """One planned failure. `times` is how often it still strikes; None is always."""

    resource_type: str
    message: str
    times: int | None = 1
    action: str = "CREATE"


class Faults:
    """The planned failures of one emulator."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def add(self, fault: Fault) -> None:
        """Plans a failure."""
        with self._lock:
            self._faults.append(fault)

    def clear(self) -> None:
        """Forgets every planned failure."""
        with self._lock:
            self._faults.clear()

    def strike(self, resource_type: str, action: str) -> str | None:
        """The message of a failure that strikes now, used up by being asked for."""
        with self._lock:
            for fault in self._faults:
                if fault.resource_type != resource_type or fault.action != action or fault.times == 0:
                    continue
                if fault.times is not None:
                    fault.times -= 1
                return fault.message
        return None
