"""Requests that get an error response."""

from jumok.errors import Message


class RequestError(Exception):
    """A request that gets an error response. The message never repeats the input."""

    def __init__(
        self,
        status: int,
        kind: str,
        message: Message,
        *,
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(str(message))
        self.status, self.kind, self.param = status, kind, param
        self.message, self.retry_after = message, retry_after


def invalid(
    code: str, template: str, /, param: str | None = None, status: int = 400, **values: object
) -> RequestError:
    """An error of the client; the name of the parameter is a value of the template.

    >>> print(invalid("request.not_a_list", "{param} must be a list", "texts"))
    texts must be a list
    """
    message = Message(code, template, param=param, **values)
    return RequestError(status, "invalid_request_error", message, param=param)
