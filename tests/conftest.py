"""The same numbers on every run: one thread, examples drawn from a fixed seed."""

import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)
settings.register_profile(
    "jumok",
    derandomize=True,  # the same examples every time: a failure here is a failure everywhere
    deadline=None,  # a busy machine is no fault
    database=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("jumok")
