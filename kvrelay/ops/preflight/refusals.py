"""A call that AWS refused, as a row: denied, throttled, expired, out of reach; never a traceback."""

from __future__ import annotations

from kvrelay.ops.preflight.rows import Row, Status

_DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError"}
_THROTTLED = {"Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException"}
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired"}
_INVALID = {"InvalidClientTokenId", "AuthFailure", "UnrecognizedClientException", "SignatureDoesNotMatch"}
_SIGN_IN = "sign in again (aws sso login, or AWS_PROFILE=name)"


def refusal(check: str, error: Exception) -> Row:
    """The row of a check that an error of botocore ended."""
    from botocore.exceptions import ClientError, NoCredentialsError

    if isinstance(error, NoCredentialsError):
        return Row(check, "credentials", Status.FAIL, "no AWS credentials were found", _SIGN_IN)
    if not isinstance(error, ClientError):
        return Row(
            check, "connection", Status.WARN, _one_line(error), "check the network and proxy, and run again"
        )
    code, call = error.response["Error"]["Code"], error.operation_name
    if code in _EXPIRED:
        return Row(check, call, Status.FAIL, "the credentials have expired", _SIGN_IN)
    if code in _INVALID:
        return Row(check, call, Status.FAIL, f"AWS does not accept the credentials ({code})", _SIGN_IN)
    if code in _DENIED:
        return Row(
            check,
            call,
            Status.WARN,
            f"not checked: your identity may not call {call}",
            f"allow {call} to it, or let someone who may run this",
        )
    if code in _THROTTLED:
        return Row(check, call, Status.WARN, "not checked: AWS throttles this call", "run again in a minute")
    return Row(
        check, call, Status.WARN, f"not checked: {_one_line(error)}", "run again, or ask AWS's support"
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
