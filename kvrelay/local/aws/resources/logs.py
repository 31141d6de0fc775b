"""CloudWatch log groups."""

from botocore.exceptions import ClientError

from kvrelay.local.aws.resources.registry import Handler, Made, Request, handles


@handles
class LogGroup(Handler):
    """AWS::Logs::LogGroup."""

    type = "AWS::Logs::LogGroup"

    def create(self, request: Request) -> Made:
        wanted = request.properties
        request.physical_id = wanted.get("LogGroupName") or request.name(512)
        arguments = {"kmsKeyId": wanted["KmsKeyId"]} if "KmsKeyId" in wanted else {}
        request.client("logs").create_log_group(logGroupName=request.physical_id, **arguments)
        return self.update(request)

    def update(self, request: Request) -> Made:
        client, name, wanted = request.client("logs"), request.physical_id, request.properties
        if "RetentionInDays" in wanted:
            client.put_retention_policy(logGroupName=name, retentionInDays=wanted["RetentionInDays"])
        elif "RetentionInDays" in request.previous:
            client.delete_retention_policy(logGroupName=name)
        before = client.list_tags_log_group(logGroupName=name)["tags"]
        gone = [key for key in before if key not in request.tags()]
        if gone:
            client.untag_log_group(logGroupName=name, tags=gone)
        if request.tags():
            client.tag_log_group(logGroupName=name, tags=request.tags())
        group = client.describe_log_groups(logGroupNamePrefix=name)["logGroups"][0]
        return Made(name, {"Arn": group["arn"] if group["arn"].endswith(":*") else group["arn"] + ":*"})

    def delete(self, request: Request) -> None:
        try:
            request.client("logs").delete_log_group(logGroupName=request.physical_id)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ResourceNotFoundException":
                raise
