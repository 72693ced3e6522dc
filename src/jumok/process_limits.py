"""The limits that a child process sets for itself before it reads what it does not trust.

Only Linux can drop the network and enforce them all. `limited_process` starts these processes.
"""

import ctypes

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000  # CLONE_NEWUSER, CLONE_NEWNET of Linux


def drop_network() -> bool:
    """Move this process into a namespace without network; False if the system forbids it."""
    unshare = getattr(ctypes.CDLL(None), "unshare", None)
    return unshare is not None and any(
        unshare(spaces) == 0 for spaces in (_NEW_NETWORK, _NEW_USER | _NEW_NETWORK)
    )


def set_limits(*, address_space: int, cpu_seconds: int, file_bytes: int) -> None:
    """Limit memory, CPU time and the size of files, and write no core file."""
    import resource

    for resource_id, maximum in (
        (resource.RLIMIT_AS, address_space),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(resource_id)[1]
        maximum = maximum if hard == resource.RLIM_INFINITY else min(maximum, hard)
        resource.setrlimit(resource_id, (maximum, maximum))
