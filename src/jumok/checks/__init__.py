"""The first promise, measured: a model gives the same answer however it is asked.

    subject = Subject(loaded, draw_samples(loaded))
    for outcome in check(subject, equalities()):
        print(outcome)

Each equality holds two ways of asking against each other; a way is a function of the subject.
"""

from jumok.checks.exporting import EXPORTED
from jumok.checks.invariance import Alike, Equality, NotApplicable, Outcome, check
from jumok.checks.precision import Change, Changed
from jumok.checks.samples import draw_samples, samples_of, some_texts
from jumok.checks.suite import equalities, not_to_be_had
from jumok.checks.target import Answers, Sample, Subject, Way, batched

__all__ = [
    "EXPORTED",
    "Alike",
    "Answers",
    "Change",
    "Changed",
    "Equality",
    "NotApplicable",
    "Outcome",
    "Sample",
    "Subject",
    "Way",
    "batched",
    "check",
    "draw_samples",
    "equalities",
    "not_to_be_had",
    "samples_of",
    "some_texts",
]
