"""An encoder's layers in the C++ kernel, as `ReadingStack` asks for them."""

from torch import Tensor, nn

from jumok.errors import InputError
from jumok.inference.unpad import PaddingLayout
from jumok.native.encoder import NativeEncoder


class NativeBackend(nn.Module):
    """Texts in, hidden states out; the kernel knows of padding, and of no other mask."""

    batch_tokens = 512

    def __init__(self, encoder: NativeEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, x: Tensor, seats: PaddingLayout, positions: Tensor) -> Tensor:
        """x (n, D) on seats, positions (b, w) -> (n, D), in the type of x."""
        if not seats.is_padding_only:
            raise InputError(
                "a mask came that hides more than padding, which the int8 kernel does not know; "
                'pad texts instead of packing them, or optimize with precision="float32"'
            )
        taken = seats.unpad(positions)  # (n)
        return self.encoder(x, seats.lengths, taken, seats.columns).to(x.dtype)
