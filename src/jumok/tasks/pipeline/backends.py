"""The backends of a pipeline: which copy of a model decodes, and why."""

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from jumok.decoding import DecodingConfig, IncrementalDecoder
from jumok.decoding.config import Precision
from jumok.errors import InputError

if TYPE_CHECKING:
    from jumok.native import NativeModel
    from jumok.native.kernel_choice import KernelChoice
    from jumok.native.packed_weights import DecoderPrecision
    from jumok.native.recorded_alignment import AligningDecoder

ModelT = TypeVar("ModelT", bound=nn.Module)
BackendsT = TypeVar("BackendsT", bound="DecoderBackends")

_ON_CPU = ("int8", "q8_0", "q4_0")  # precisions


class DecoderBackends:
    """The models that decoding settings need, each converted at its first use.

    With `in_training` the kernel "auto" is PyTorch: the results of a training must not depend on
    whether a kernel has been compiled, and a resumed training must repeat them.
    """

    def __init__(self, config: DecodingConfig, *, in_training: bool = False) -> None:
        self.config, self.in_training = config, in_training
        self._choices: WeakKeyDictionary[nn.Module, KernelChoice] = WeakKeyDictionary()
        self._copies: dict[tuple[nn.Module, DecoderPrecision], nn.Module] = {}
        self._native_models: dict[tuple[nn.Module, DecoderPrecision], _Packed] = {}

    def with_config(self: BackendsT, config: DecodingConfig) -> BackendsT:
        """Backends of other settings, which share the converted models of these."""
        other = copy.copy(self)
        other.config, other._choices = config, WeakKeyDictionary()
        return other

    def choice(self, model: nn.Module) -> "KernelChoice":
        """What decodes with a model, chosen at the first use of the model."""
        from jumok.native.choice import IN_TRAINING, choose_kernel
        from jumok.native.kernel_choice import KernelChoice

        if model not in self._choices:
            config, precision = self.config, self._precision_of(model)
            self._choices[model] = (
                KernelChoice("torch", precision, IN_TRAINING)
                if self.in_training and config.kernel == "auto"
                else choose_kernel(model, config.kernel, precision, coverage=config.coverage > 0)
            )
        return self._choices[model]

    def is_native(self, model: nn.Module) -> bool:
        """Whether the C++ kernel decodes with the model.

        A model that was changed after it was opened, by hooks or by other layers, decodes with
        PyTorch where the kernel was not requested.
        """
        from jumok.native import unsupported_reason

        if self.choice(model).kernel != "native":
            return False
        return self.config.kernel == "native" or unsupported_reason(model) is None

    def check_available(self, device: torch.device) -> None:
        """Raise KernelError or InputError when the settings cannot run on the device."""
        if self.cpu_only_setting is not None and device.type != "cpu":
            raise _not_on_cpu(self.cpu_only_setting)
        if self.config.kernel == "native":
            from jumok.native.build import kernel_path

            kernel_path()

    @property
    def cpu_only_setting(self) -> str | None:
        """The setting that runs on the CPU only; None when there is none."""
        if self.config.kernel == "native":
            return 'decoding.kernel "native"'
        precision = self.config.precision
        return f"decoding.precision {precision}" if precision in _ON_CPU else None

    def model_in_precision(self, model: ModelT) -> ModelT:
        """The model, or its copy in the precision of the settings; the kernel converts its own.

        Raises InputError for int8 and blocks on another device than the CPU, and for a model that
        is already optimized.
        """
        if self.config.precision == "float32":
            return model
        self._check_on_cpu(model)
        if self.is_native(model):
            return model
        from jumok.native import is_optimized

        key = (model, self.config.precision)
        if key not in self._copies:
            if any(map(is_optimized, model.modules())):
                raise InputError(
                    "pipeline.two_precisions",
                    "decoding.precision must be float32 for a model that --precision has "
                    "optimized, got {precision}; leave out one of the two",
                    precision=self.config.precision,
                )
            self._copies[key] = _in_precision(model, self.config.precision)
        return self._copies[key]  # type: ignore[return-value]  # a copy is of the same class

    def start_seq2seq(
        self, model: nn.Module, source: Tensor, source_mask: Tensor | None, capacity: int
    ) -> IncrementalDecoder:
        """A native decoder of an encoder-decoder for sources (N, S)."""
        from jumok.native import NativeDecoder

        return NativeDecoder(self._native_model(model), source, source_mask, capacity=capacity)

    def start_aligning(
        self, model: nn.Module, source: Tensor, source_mask: Tensor | None, capacity: int
    ) -> "AligningDecoder":
        """A native decoder that records the cross-attention of each token to sources (N, S)."""
        from jumok.native import NativeDecoder
        from jumok.native.recorded_alignment import AligningDecoder

        native = self._native_model(model)
        decoder = NativeDecoder(native, source, source_mask, capacity=capacity)
        return AligningDecoder(decoder, len(source))

    def start_lm(
        self, model: nn.Module, capacity: int, padding: Tensor | None = None
    ) -> IncrementalDecoder:
        """A native decoder of a language model for prompts with left padding (N), if any."""
        from jumok.native import NativeDecoder

        return NativeDecoder(self._native_model(model), padding=padding, capacity=capacity)

    def _native_model(self, model: nn.Module) -> "NativeModel":
        from jumok.native import NativeModel
        from jumok.pretrained.memory_map import release_pages

        self._check_on_cpu(model)
        precision, version = self._precision_of(model), _weights_version(model)
        key = (model, precision)
        packed = self._native_models.get(key)
        if packed is None or packed.version != version:
            native = NativeModel(model, precision, on_packed=release_pages)
            packed = self._native_models[key] = _Packed(native, version)
        return packed.model

    def _precision_of(self, model: nn.Module) -> "DecoderPrecision":
        """That of the settings; weights that were opened in bfloat16 are not made float32."""
        precision = self.config.precision
        if precision == "float32" and next(model.parameters()).dtype == torch.bfloat16:
            return "bfloat16"
        return precision

    def _check_on_cpu(self, model: nn.Module) -> None:
        if self.cpu_only_setting is not None and next(model.parameters()).device.type != "cpu":
            raise _not_on_cpu(self.cpu_only_setting)


def _in_precision(model: nn.Module, precision: Precision) -> nn.Module:
    """A copy of a model in another precision than float32, computed by PyTorch."""
    from jumok.native import quantize_int8, round_to_blocks, to_bfloat16

    if precision == "q8_0" or precision == "q4_0":
        return round_to_blocks(model, precision)
    return quantize_int8(model) if precision == "int8" else to_bfloat16(model)


@dataclass(frozen=True)
class _Packed:
    """A model packed for the kernel, and the version of the weights that were packed."""

    model: "NativeModel"
    version: tuple[tuple[int, int], ...]


def _weights_version(model: nn.Module) -> tuple[tuple[int, int], ...]:
    """What changes when a weight is replaced or changed in place: its address and its version."""
    weights = list(model.parameters())
    return tuple((w.data_ptr(), 0 if w.is_inference() else w._version) for w in weights)


def _not_on_cpu(setting: str) -> InputError:
    return InputError(
        "pipeline.needs_cpu",
        '{setting} needs a model on the CPU; leave it out, or load the run with device="cpu"',
        setting=setting,
    )
