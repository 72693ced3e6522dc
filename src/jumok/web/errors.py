"""Requests that get an error response."""

from jumok.errors import Message

KINDS = {409: "reload_error", 429: "overloaded", 504: "timeout"}  # of OpenAI's API, by status


class RequestError(Exception):
    """A request that gets an error response. The message never repeats the input.

    The name of the parameter is a value of the template.

    >>> print(RequestError("request.not_a_list", "{param} must be a list", "texts"))
    texts must be a list
    """

    def __init__(
        self,
        code: str,
        template: str,
        /,
        param: str | None = None,
        status: int = 400,
        *,
        retry_after: int | None = None,
        **values: object,
    ) -> None:
        self.message = Message(code, template, param=param, **values)
        super().__init__(str(self.message))
        self.status, self.param, self.retry_after = status, param, retry_after

    @classmethod
    def of(cls, message: Message, status: int = 400) -> "RequestError":
        """The error of a message that is there already."""
        found = cls.__new__(cls, str(message))
        found.message, found.status, found.param, found.retry_after = message, status, None, None
        return found

    @property
    def kind(self) -> str:
        """The type of the error in OpenAI's API."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return KINDS.get(self.status, kind)
