"""Tags of EC2 resources, set and changed the same way for all of them."""

from typing import Any

from kvrelay.local.aws.resources.registry import Request


def tag(request: Request, resource_id: str) -> None:
    """Gives a new resource its tags and the ones CloudFormation adds."""
    request.client("ec2").create_tags(
        Resources=[resource_id], Tags=_tag_rows(request)
    ) if request.tags() else None


def retag(request: Request) -> None:
    """Brings the tags of `request.physical_id` from what they were to what they should be."""
    client = request.client("ec2")
    wanted = request.tags()
    found = client.describe_tags(Filters=[{"Name": "resource-id", "Values": [request.physical_id]}])["Tags"]
    gone = [{"Key": row["Key"]} for row in found if row["Key"] not in wanted]
    if gone:
        client.delete_tags(Resources=[request.physical_id], Tags=gone)
    tag(request, request.physical_id)


def only_tags_changed(request: Request) -> bool:
    """Whether an update is about tags and nothing else."""
    before = {k: v for k, v in request.previous.items() if k != "Tags"}
    return before == {k: v for k, v in request.properties.items() if k != "Tags"}


def _tag_rows(request: Request) -> list[dict[str, Any]]:
    return request.tag_list()
