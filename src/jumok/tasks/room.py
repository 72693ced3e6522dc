"""Whether a machine has room for a model: told from its measures, before any memory is taken."""

from dataclasses import replace

from jumok.device import memory_bytes
from jumok.errors import InputError
from jumok.models.size import min_bytes, min_parameter_count
from jumok.tasks.recipe.tables import ModelConfig
from jumok.training.config import TrainingConfig

WEIGHT_COPIES = 4  # float32 for each weight: itself, its gradient, AdamW's two moments


def check_memory(config: ModelConfig, learns: TrainingConfig) -> None:
    """Raises InputError for a model whose weights alone, as they learn, no memory here holds.

    What `jumok train --dry-run` measures, activations above all, comes on top. Frozen weights have
    no gradient, and of a model in shards each process has a part.
    """
    if config.kind == "encoder_decoder" and config.n_decoder_layers is None:
        config = replace(config, n_decoder_layers=config.n_layers)
    whole = not learns.freeze and learns.sharding == "none"
    wanted, there = min_bytes(config, copies=WEIGHT_COPIES if whole else 1), memory_bytes()
    if wanted > there:
        raise InputError(
            f"the model has {min_parameter_count(config):,} numbers or more, which take "
            f"{wanted / 2**30:,.0f} GB to learn, and this machine has {there / 2**30:,.0f} GB; "
            "make it smaller: model.d_model, d_ff, n_layers, max_length or its vocabulary"
        )
