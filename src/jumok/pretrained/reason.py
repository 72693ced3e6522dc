"""A config.json may name any sizes: nothing is made that is far larger than what lies beside it."""

from jumok.errors import InputError
from jumok.models.config import TransformerConfig
from jumok.models.size import least_numbers

FREE = 10_000_000  # numbers that may be asked for beyond what came: wrong shapes are listed then


def refuse_giants(config: TransformerConfig, held: int) -> None:
    """Raises InputError when the config asks for far more than the `held` numbers that came."""
    wanted = least_numbers(config)
    if wanted > max(4 * held, FREE):
        raise InputError(
            f"config.json describes {wanted:,} numbers or more, and {held:,} came; give the "
            "checkpoint's own config.json and weights"
        )
