"""Errors as AWS words them: an API error with its code, and a resource that could not be made."""


class AwsError(Exception):
    """What an AWS API answers with: a code clients match on, and a message people read."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ValidationError(AwsError):
    """CloudFormation's answer to a request that can't be right."""

    def __init__(self, message: str) -> None:
        super().__init__("ValidationError", message)


class ResourceFailedError(Exception):
    """A resource could not be created, updated or deleted; its text becomes the event's status reason.

    `physical_id` is set when the failed resource exists all the same and must be deleted by the rollback.
    """

    def __init__(self, message: str, physical_id: str = "") -> None:
        super().__init__(message)
        self.physical_id = physical_id
