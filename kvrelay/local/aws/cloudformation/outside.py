"""What a stack reads from outside itself: exports, zones, parameters and secrets."""

from botocore.exceptions import ClientError

from kvrelay.local.aws.account import Account
from kvrelay.local.aws.errors import ValidationError


class AccountOutside:
    """Looks things up in the emulated account."""

    def __init__(self, account: Account, region: str) -> None:
        self._account = account
        self._region = region

    def import_value(self, export: str) -> str:
        """Another stack's exported value."""
        exporter = self._account.stacks(self._region).exporter(export)
        if exporter is None:
            raise ValidationError(f"No export named {export} found.")
        return exporter.exports[export]

    def zones(self, region: str) -> list[str]:
        """A region's Availability Zones."""
        found = self._account.client("ec2", region).describe_availability_zones()
        return sorted(zone["ZoneName"] for zone in found["AvailabilityZones"])

    def dynamic(self, service: str, reference: str) -> str:
        """The value of `{{resolve:service:reference}}`."""
        try:
            if service in ("ssm", "ssm-secure"):
                found = self._account.client("ssm", self._region).get_parameter(
                    Name=reference, WithDecryption=service == "ssm-secure"
                )
                return str(found["Parameter"]["Value"])
            return self._secret(reference)
        except ClientError as error:
            if service == "secretsmanager":
                raise ValidationError(str(error)) from error
            name = reference.split(":")[0]
            raise ValidationError(f"Parameters: [{service}:{name}] could not be found.") from error

    def _secret(self, reference: str) -> str:
        import json

        head, _, rest = reference.partition(":SecretString")
        value = str(
            self._account.client("secretsmanager", self._region).get_secret_value(SecretId=head)[
                "SecretString"
            ]
        )
        key = rest.split(":")[1] if ":" in rest else ""
        return str(json.loads(value)[key]) if key else value
