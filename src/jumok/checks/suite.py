"""The table: every equality there is, in the order they are told."""

from collections.abc import Callable, Sequence

from jumok.checks.exporting import EXPORTED
from jumok.checks.incremental import cached, native
from jumok.checks.invariance import EXACTLY, Alike, Equality, NotApplicable
from jumok.checks.lower_precision import BFLOAT16, INT8
from jumok.checks.original import opened_by_transformers
from jumok.checks.packing import packed, padded_without_segments
from jumok.checks.precision import Change, Changed, InInt8
from jumok.checks.saving import restored
from jumok.checks.target import Answers, Subject, Way, alone, padded_left
from jumok.checks.variants import Compiled
from jumok.checks.watching import watched
from jumok.native import WeightPrecision, quantize_int8, to_bfloat16


def not_to_be_had(reason: str) -> Way:
    """A way that nobody can go, and why."""

    def way(subject: Subject) -> Answers:
        raise NotApplicable(reason)

    return way


BY_INDUCTOR = Compiled()


def equalities(
    *,
    compiled: Way = BY_INDUCTOR,
    kernel: Callable[[WeightPrecision], Way] = native,
    bfloat16: Change = to_bfloat16,
    int8: Change = quantize_int8,
    original: Way = opened_by_transformers,
    others: Sequence[Equality] = EXPORTED,
) -> list[Equality]:
    """All of them; other transformations and other programs may be handed in.

    `compiled` and `kernel` take long where nothing is compiled yet; `not_to_be_had` in their place
    leaves them out. `bfloat16` and `int8` make a copy of a model. `original` asks another program
    that holds the same weights; `others` are rows of their own.
    """
    return [
        Alike("alone = batched", "each text by itself, and among longer and shorter ones", alone),
        Alike("left = right padding", "the same batch, padded on either side", padded_left),
        Alike(
            "packed = padded",
            "several texts end to end in a row, and each in a row of its own",
            packed,
            padded_without_segments,
        ),
        Alike("cached = uncached", "token by token from a cache, and all at once", cached),
        Alike("watched = unwatched", "every attention weight recorded, and none", watched),
        Alike("compiled = eager", "the towers through torch.compile, and as they are", compiled),
        Alike(
            "saved = loaded",
            "the model read from its own files, bit for bit",
            restored,
            tolerance=EXACTLY,
        ),
        Alike(
            "native = plain",
            "the C++ kernel in float32 that writes step by step, and all at once",
            kernel("float32"),
        ),
        Alike(
            "bf16 vs fp32",
            "a copy in bfloat16; may differ as far as random errors of half a step move fp32",
            Changed(bfloat16),
            tolerance=BFLOAT16,
            deciding=True,
        ),
        Alike(
            "int8 vs fp32",
            "a copy with 8-bit linear maps; may differ as far as random errors of half a step do",
            InInt8(kernel("int8"), int8),
            tolerance=INT8,
            deciding=True,
        ),
        Alike("original = ours", "the checkpoint opened by transformers, and by jumok", original),
        *others,
    ]
