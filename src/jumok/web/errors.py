"""Requests that get an error response."""


class RequestError(Exception):
    """A request that gets an error response. The message never repeats the input."""

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        *,
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.param = status, kind, param
        self.message, self.retry_after = message, retry_after


def invalid(message: str, param: str | None = None, status: int = 400) -> RequestError:
    """An error of the client."""
    return RequestError(status, "invalid_request_error", message, param=param)
