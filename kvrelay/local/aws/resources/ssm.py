"""SSM parameters."""

from botocore.exceptions import ClientError

from kvrelay.local.aws.resources.registry import Handler, Made, Request, handles


@handles
class Parameter(Handler):
    """AWS::SSM::Parameter."""

    type = "AWS::SSM::Parameter"

    def create(self, request: Request) -> Made:
        request.physical_id = request.properties.get("Name") or f"CFN-{request.name(200)}"
        return self._put(request, overwrite=False)

    def update(self, request: Request) -> Made:
        return self._put(request, overwrite=True)

    def _put(self, request: Request, *, overwrite: bool) -> Made:
        client, wanted = request.client("ssm"), request.properties
        arguments = {
            k: wanted[k] for k in ("Description", "AllowedPattern", "Tier", "DataType") if k in wanted
        }
        client.put_parameter(
            Name=request.physical_id,
            Value=wanted["Value"],
            Type=wanted["Type"],
            Overwrite=overwrite,
            **arguments,
        )
        if request.tags():
            client.add_tags_to_resource(
                ResourceType="Parameter", ResourceId=request.physical_id, Tags=request.tag_list()
            )
        return Made(
            request.physical_id,
            {"Type": wanted["Type"], "Value": wanted["Value"], "Name": request.physical_id},
        )

    def delete(self, request: Request) -> None:
        try:
            request.client("ssm").delete_parameter(Name=request.physical_id)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ParameterNotFound":
                raise
