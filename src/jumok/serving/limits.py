"""All limits of the server, published at GET /v1/limits."""

from dataclasses import asdict, dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Times are absolute: bytes that arrive slowly do not extend them.

    There is none for the headers of a request and for reading a response: a proxy has them.
    """

    body_bytes: int = 2**22
    texts: int = 2_048  # of a request, as of OpenAI's API
    text_bytes: int = 2**18  # of one text in UTF-8
    waiting_bytes: int = 2**26  # of all texts that wait for one model
    max_wait: float = 2.0  # seconds in the queue that are still accepted
    request_seconds: float = 60.0  # without the header X-Jumok-Deadline-Ms
    max_deadline_ms: int = 600_000
    header_bytes: int = 2**16
    body_seconds: float = 30.0
    keep_alive_seconds: float = 5.0
    grace_seconds: float = 30.0  # for requests in progress after SIGTERM
    stall_seconds: float = 60.0  # a computing process that answers no ping for so long is replaced
    beam: int = 16
    n_best: int = 16
    new_tokens: int = 4_096
    stop: int = 16  # stop strings of a completion
    traces: int = 32  # kept pages of `--traces`
    trace_bytes: int = 2**25  # of all of them

    def as_json(self) -> dict[str, float]:
        """All limits by name.

        >>> Limits().as_json()["texts"]
        2048
        """
        return asdict(self)


def limits_of(max_wait: float, request_timeout: float, max_body: int, keep_alive: float) -> Limits:
    """The limits with those of the options of `jumok serve`; `max_body` is in MiB, times in s.

    A computing process that is busy with one text may not answer for as long as a request has.

    >>> limits_of(2.0, 900.0, 16, 5).stall_seconds
    900.0
    """
    limits = Limits()
    return replace(
        limits,
        max_wait=max_wait,
        request_seconds=request_timeout,
        max_deadline_ms=max(limits.max_deadline_ms, round(1000 * request_timeout)),
        stall_seconds=max(limits.stall_seconds, request_timeout),
        body_bytes=max_body * 2**20,
        keep_alive_seconds=keep_alive,
    )
