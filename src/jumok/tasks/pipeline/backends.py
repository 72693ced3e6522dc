"""With what a model writes: as it is, a copy of less precision, or the C++ kernel's."""

from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn

from jumok.decoding import DecodingConfig, IncrementalDecoder
from jumok.errors import InputError

if TYPE_CHECKING:
    from jumok.native import NativeModel


M = TypeVar("M", bound=nn.Module)


class DecoderBackends:
    """What a request's settings write with, each model's copy made when it is first asked for."""

    def __init__(self, config: DecodingConfig) -> None:
        self.config = config
        self._copies: dict[nn.Module, nn.Module] = {}
        self._native_models: dict[nn.Module, NativeModel] = {}

    @property
    def native(self) -> bool:
        """Whether the C++ kernel is asked for."""
        return self.config.kernel == "native"

    def check_available(self, device: torch.device) -> None:
        """Raises KernelError, or InputError, for what is asked for and cannot be had there."""
        if self.cpu_only_setting is not None and device.type != "cpu":
            raise _not_on_cpu(self.cpu_only_setting)
        if self.native:
            from jumok.native.build import kernel_path

            kernel_path()

    @property
    def cpu_only_setting(self) -> str | None:
        """The setting that writes on the CPU alone; None when there is none."""
        if self.native:
            return 'decoding.kernel "native"'
        return "decoding.precision int8" if self.config.precision == "int8" else None

    def model_in_precision(self, model: M) -> M:
        """The model, or a copy of it in the precision of the settings; the kernel makes its own.

        Raises InputError for int8 elsewhere than on the CPU, and for a model that is such a copy.
        """
        if self.native or self.config.precision == "float32":
            return model
        from jumok.native import is_optimized, quantize_int8, to_bfloat16

        if model not in self._copies:
            self._check_on_cpu(model)
            if any(map(is_optimized, model.modules())):
                raise InputError(
                    f"the model is a fast copy already, and decoding.precision "
                    f"{self.config.precision} makes another of the whole; leave one of the two "
                    "out, --precision or decoding.precision"
                )
            eight = self.config.precision == "int8"
            self._copies[model] = quantize_int8(model) if eight else to_bfloat16(model)
        return self._copies[model]  # type: ignore[return-value]  # a copy is of the same class

    def start_seq2seq(
        self, model: nn.Module, source: Tensor, real: Tensor | None, room: int
    ) -> IncrementalDecoder:
        """A writer of a model that reads sources (N, S)."""
        from jumok.native import NativeDecoder

        return NativeDecoder(self._native_model(model), source, real, capacity=room)

    def start_lm(self, model: nn.Module, room: int) -> IncrementalDecoder:
        """A writer of a model that goes on from prompts of one length."""
        from jumok.native import NativeDecoder

        return NativeDecoder(self._native_model(model), capacity=room)

    def _native_model(self, model: nn.Module) -> "NativeModel":
        from jumok.native import NativeModel
        from jumok.pretrained.memory_map import release_pages

        self._check_on_cpu(model)
        made = self._native_models.get(model)
        if made is None:
            made = self._native_models[model] = NativeModel(
                model, self.config.precision, on_packed=release_pages
            )
        return made

    def _check_on_cpu(self, model: nn.Module) -> None:
        if self.cpu_only_setting is not None and next(model.parameters()).device.type != "cpu":
            raise _not_on_cpu(self.cpu_only_setting)


def _not_on_cpu(setting: str) -> InputError:
    return InputError(
        f"{setting} writes on the CPU and the model is elsewhere; leave it out, or take the "
        'run with device="cpu"'
    )
