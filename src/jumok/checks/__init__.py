"""Measure that a model gives the same outputs however they are computed.

    target = CheckTarget(pipeline, draw_samples(pipeline))
    for result in run_checks(target, all_checks()):
        print(result)

Each check compares two variants of a computation; a variant is a function of the target.
"""

from jumok.checks.invariance import Check, CheckResult, InvarianceCheck, NotApplicable, run_checks
from jumok.checks.lower_precision import ModelTransform, TransformedModel
from jumok.checks.suite import EXPORT_CHECKS, all_checks, unavailable
from jumok.checks.target import (
    CheckTarget,
    Outputs,
    Sample,
    Variant,
    batched,
    dev_texts,
    draw_samples,
    text_samples,
)

__all__ = [
    "EXPORT_CHECKS",
    "Check",
    "CheckResult",
    "CheckTarget",
    "InvarianceCheck",
    "ModelTransform",
    "NotApplicable",
    "Outputs",
    "Sample",
    "TransformedModel",
    "Variant",
    "all_checks",
    "batched",
    "dev_texts",
    "draw_samples",
    "run_checks",
    "text_samples",
    "unavailable",
]
