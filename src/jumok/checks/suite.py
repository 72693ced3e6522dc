"""All checks, in the order in which they are reported."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jumok.checks.incremental import cached, native
from jumok.checks.invariance import (
    ALONE,
    EXACT,
    Check,
    InvarianceCheck,
    Measurement,
    NotApplicable,
)
from jumok.checks.lower_precision import (
    BFLOAT16,
    INT8,
    Int8Variant,
    ModelTransform,
    TransformedModel,
)
from jumok.checks.packing import packed, padded_without_segments
from jumok.checks.read_ids import ReadIdsCheck
from jumok.checks.target import CheckTarget, Outputs, Variant, padded_left, unbatched
from jumok.checks.variants import (
    Compiled,
    saved_and_loaded,
    transformers_outputs,
    vectors,
    vectors_alone,
    with_hooks,
)
from jumok.errors import InputError
from jumok.export import export_difference, get_target
from jumok.native import WeightPrecision, quantize_int8, to_bfloat16


@dataclass(frozen=True)
class ExportCheck(Check):
    """The exported model, run in its own library, must agree with the model itself."""

    format: str

    def compare(self, target: CheckTarget) -> Measurement:
        """Not applicable if the format does not support the model, or its library is missing."""
        if target.pipeline.device.type != "cpu":
            raise NotApplicable("check.exports_need_cpu", "exports are compared on the CPU only")
        if self.format == SENTENCE_TRANSFORMERS and target.pipeline.sentence_encoding is None:
            raise NotApplicable(
                "check.no_modules", "the model has no modules.json of sentence-transformers"
            )
        try:
            difference = export_difference(target.pipeline, self.format)
            return Measurement(difference, get_target(self.format).tolerance)
        except InputError as reason:  # unsupported, not different
            raise NotApplicable(reason.message) from None


SENTENCE_TRANSFORMERS = "sentence-transformers"  # of models that have its modules
EXPORT_CHECKS = tuple(
    ExportCheck(f"exported = jumok ({to})", f"the model exported to {to}, and the model itself", to)
    for to in ("hf", "onnx", "ctranslate2", SENTENCE_TRANSFORMERS)
)

INDUCTOR = Compiled()


def unavailable(reason: str) -> Variant:
    """A variant that is always skipped, with the reason."""

    def variant(target: CheckTarget) -> Outputs:
        raise NotApplicable("check.skipped", "{reason}", reason=reason)

    return variant


def all_checks(
    *,
    compiled: Variant = INDUCTOR,
    kernel: Callable[[WeightPrecision], Variant] = native,
    bfloat16: ModelTransform = to_bfloat16,
    int8: ModelTransform = quantize_int8,
    original: Variant = transformers_outputs,
    others: Sequence[Check] = EXPORT_CHECKS,
) -> list[Check]:
    """All checks; variants can be replaced.

    compiled, kernel: slow until they are compiled; pass `unavailable(...)` to skip them.
    bfloat16, int8: transforms that copy a model. original: another implementation with the same
    weights. others: further checks.
    """
    return [
        ReadIdsCheck(),
        InvarianceCheck(
            ALONE,
            "each text alone, and in a batch with longer and shorter ones",
            unbatched,
        ),
        InvarianceCheck(
            "left = right padding",
            "the same batch, padded on the left and on the right",
            padded_left,
        ),
        InvarianceCheck(
            "packed = padded",
            "several texts per row, and each in its own row",
            packed,
            padded_without_segments,
        ),
        InvarianceCheck(
            "cached = uncached", "token by token with a cache, and all tokens at once", cached
        ),
        InvarianceCheck(
            "hooked = unhooked",
            "with all attention weights recorded, and without hooks",
            with_hooks,
        ),
        InvarianceCheck(
            "vectors alone = batched",
            "the vector of each text alone, and in a batch, by the modules of its folder",
            vectors_alone,
            vectors,
        ),
        InvarianceCheck(
            "compiled = eager", "encoder and decoder through torch.compile, and eager", compiled
        ),
        InvarianceCheck(
            "saved = loaded",
            "the model loaded from its own files, bit for bit",
            saved_and_loaded,
            tolerance=EXACT,
        ),
        InvarianceCheck(
            "native = torch",
            "the C++ kernel in float32, token by token, and torch, all tokens at once",
            kernel("float32"),
        ),
        InvarianceCheck(
            "bf16 vs fp32",
            "a copy in bfloat16; the tolerance is the effect of random rounding errors on fp32",
            TransformedModel(bfloat16),
            tolerance=BFLOAT16,
            compare_decisions=True,
        ),
        InvarianceCheck(
            "int8 vs fp32",
            "a copy with int8 linear maps; the tolerance is the effect of random rounding errors",
            Int8Variant(kernel("int8"), int8),
            tolerance=INT8,
            compare_decisions=True,
        ),
        InvarianceCheck(
            "original = jumok", "the checkpoint in transformers, and in jumok", original
        ),
        *others,
    ]
