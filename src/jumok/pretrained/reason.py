"""A config.json may name any sizes: nothing is made that is far larger than what lies beside it."""

from jumok.errors import InputError
from jumok.models.config import TransformerConfig
from jumok.models.size import min_parameter_count

MAX_EXTRA_WEIGHTS = (
    10_000_000  # numbers that may be asked for beyond what came: wrong shapes are listed then
)


def check_model_size(config: TransformerConfig, n_stored: int) -> None:
    """Raises InputError when the config asks for far more than the `held` numbers that came."""
    wanted = min_parameter_count(config)
    if wanted > max(4 * n_stored, MAX_EXTRA_WEIGHTS):
        raise InputError(
            f"config.json describes {wanted:,} numbers or more, and {n_stored:,} came; give the "
            "checkpoint's own config.json and weights"
        )
