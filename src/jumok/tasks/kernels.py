"""With what a model writes: as it is, or with its weights in the C++ kernel of `jumok.native`."""

from typing import TYPE_CHECKING

from torch import Tensor, nn

from jumok.decoding import DecodingConfig, Writer
from jumok.errors import InputError

if TYPE_CHECKING:
    from jumok.native import NativeModel


class Kernels:
    """The native models of a request's settings, each made when it is first asked for."""

    def __init__(self, config: DecodingConfig) -> None:
        self.config = config
        self._made: dict[nn.Module, NativeModel] = {}

    @property
    def native(self) -> bool:
        """Whether the C++ kernel is asked for."""
        return self.config.kernel == "native"

    def refuse_missing(self) -> None:
        """Raises KernelError when the C++ kernel is asked for and cannot be had."""
        if self.native:
            from jumok.native.build import kernel

            kernel()

    def begin_target(
        self, model: nn.Module, source: Tensor, real: Tensor | None, room: int
    ) -> Writer:
        """A writer of a model that reads sources (N, S)."""
        from jumok.native import NativeWriter

        return NativeWriter(self._of(model), source, real, room=room)

    def begin_text(self, model: nn.Module, room: int) -> Writer:
        """A writer of a model that goes on from prompts of one length."""
        from jumok.native import NativeWriter

        return NativeWriter(self._of(model), room=room)

    def _of(self, model: nn.Module) -> "NativeModel":
        from jumok.native import NativeModel

        if next(model.parameters()).device.type != "cpu":
            raise InputError(
                "the native kernel writes on the CPU and the model is elsewhere; "
                'set decoding.kernel = "plain", or load it with device="cpu"'
            )
        made = self._made.get(model)
        if made is None:
            made = self._made[model] = NativeModel(model, self.config.precision)
        return made
