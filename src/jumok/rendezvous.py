"""How processes find each other, also where those before them were lost.

torchrun keeps one store of words for a job, and starts new processes beside what the lost ones
wrote there: addresses that nobody listens at any more. So every process says hello by a name that
was never said before, rank 0 answers each by such a name of its own, and under that name they
connect. An old hello is answered as well, which harms nobody.
"""

import secrets
import time
from datetime import timedelta

from torch.distributed.distributed_c10d import PrefixStore, Store

PAUSE = 0.01  # seconds between two looks


def meet(store: Store, rank: int, size: int, timeout: float) -> Store:
    """A store that only the living ones use. Raises RuntimeError when some do not come in time."""
    me = secrets.token_hex(8)
    if rank == 0:
        _answer(store, me, size, timeout)
        return PrefixStore(me, store)
    store.set(f"hello/{rank}", me)
    store.wait([f"answer/{me}"], timedelta(seconds=timeout))
    group = store.get(f"answer/{me}").decode()
    store.set(f"here/{group}/{rank}", "")
    return PrefixStore(group, store)


def _answer(store: Store, group: str, size: int, timeout: float) -> None:
    """Tell everybody who says hello the name of the group, until all are here."""
    end = time.monotonic() + timeout
    others = range(1, size)
    while not all(store.check([f"here/{group}/{rank}"]) for rank in others):
        for rank in others:
            if store.check([f"hello/{rank}"]):
                store.set(f"answer/{store.get(f'hello/{rank}').decode()}", group)
        if time.monotonic() > end:
            raise RuntimeError(f"not all of {size} processes came within {timeout:g} s")
        time.sleep(PAUSE)
