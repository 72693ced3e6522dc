"""What reads texts with an encoder, and why."""

from typing import TYPE_CHECKING

from torch import nn

from jumok.native.kernel_choice import KernelChoice

if TYPE_CHECKING:
    from jumok.native.packed_weights import WeightPrecision
    from jumok.native.session import EncoderSession
    from jumok.tasks.pipeline.pipeline import Pipeline

PLAIN_ENCODER = "an encoder whose weights are not packed for the kernel"


def encoder_choice(model: nn.Module) -> KernelChoice:
    """What reads texts with an encoder: PyTorch, or what `--precision` has replaced it with."""
    for module in model.modules():
        choice = getattr(module, "kernel_choice", None)  # of the replaced layers
        if isinstance(choice, KernelChoice):
            return choice
    return KernelChoice("torch", "float32", PLAIN_ENCODER)


def text_session(model: nn.Module) -> "EncoderSession | None":
    """The session of an optimized model of texts, from ids to the outputs of its head, or None."""
    session: EncoderSession | None = getattr(model, "session", None)  # of `attach_session`
    return session


def with_packed_encoder(pipeline: "Pipeline", precision: "WeightPrecision | None") -> "Pipeline":
    """The pipeline with an encoder for many texts: the one that commands and the server use.

    None is float32 in a compiled kernel, or int8 where its loss was measured (`int8_loss`), and
    without a kernel PyTorch: the pipeline does not change.
    Raises InputError for unknown precisions, and for models without a supported encoder.
    """
    from jumok.inference import optimize  # a training needs only `encoder_choice`
    from jumok.inference.optimization import unsupported_reason
    from jumok.native.measured import is_compiled_encoder
    from jumok.tasks.runs.int8_loss import measured_precision

    packed = precision or measured_precision(pipeline.weights_path)
    if precision is None:
        packs = pipeline.recipe.model.kind == "encoder" and is_compiled_encoder(packed)
        if not packs or unsupported_reason(pipeline.model) is not None:
            return pipeline
    return pipeline.with_models(lambda model: optimize(model, packed))
