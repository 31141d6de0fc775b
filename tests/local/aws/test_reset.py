"""An emulator begins empty, whatever an earlier one in the same process held."""

from __future__ import annotations

from kvrelay.local.aws.emulator import EmulatedAws


def test_names_that_an_earlier_account_took_are_free_again() -> None:
    for _ in range(2):
        with EmulatedAws() as aws:
            location = {"LocationConstraint": aws.region}
            aws.client("s3").create_bucket(Bucket="kvrelay-assets", CreateBucketConfiguration=location)
            aws.client("ecr").create_repository(repositoryName="kvrelay-assets")
            aws.client("iam").create_role(RoleName="kvrelay-role", AssumeRolePolicyDocument="{}")
            aws.client("ssm").put_parameter(Name="/kvrelay", Value="1", Type="String")
            aws.client("logs").create_log_group(logGroupName="/kvrelay")
