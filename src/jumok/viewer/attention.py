"""Who looks where: the attention of a run to a text, as a picture."""

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from jumok.errors import InputError
from jumok.models import EncoderDecoder
from jumok.nn.hooks import record
from jumok.tasks.answering import Loaded
from jumok.tasks.batches import padded
from jumok.tasks.classification import TextEncoder, classify
from jumok.tasks.sequence_to_sequence import PairEncoder, write_all
from jumok.typography import save
from jumok.viewer.figures import attention_map, head_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(loaded: Loaded, text: str, path: Path, layer: int = -1, head: int | None = None) -> Path:
    """Draw the attention to `text` into `path` and return it.

    Of a sequence-to-sequence model the cross-attention from what it writes to what it reads;
    otherwise the encoder's own. `layer` counts from 0 (or back from -1); without `head` a mean
    over the heads is drawn for cross-attention, all heads side by side for an encoder.
    """
    save(_figure(loaded, text, layer, head), path)
    return path


@torch.inference_mode()
def _figure(loaded: Loaded, text: str, layer: int, head: int | None) -> "Figure":
    vocabulary, model = loaded.vocabulary, loaded.model
    if isinstance(model, EncoderDecoder):
        sources = PairEncoder(vocabulary, loaded.recipe.model.max_length).sources([text])
        ((_, written),) = write_all(model, sources, vocabulary, loaded.device)
        source = torch.tensor([sources[0].tolist()], device=loaded.device)
        target = torch.tensor([[vocabulary.bos_id, *written.ids]], device=loaded.device)
        with record(model) as seen:
            model(source, target)
        weights = _layer(seen, "decoder", ".cross", layer)
        queries = [vocabulary.piece(i) for i in [*written.ids, vocabulary.eos_id]]
        keys = [vocabulary.piece(i) for i in sources[0]]
    else:
        rows = TextEncoder(vocabulary, loaded.recipe.model.max_length)([text])
        with record(model) as seen:
            classify(model, padded([rows[0]], vocabulary.pad_id, loaded.device), vocabulary.bos_id)
        weights = _layer(seen, "encoder", ".attention", layer)
        queries = keys = [vocabulary.piece(i) for i in rows[0]]
    if head is not None:
        if not 0 <= head < len(weights):
            raise InputError(f"head {head} of {len(weights)}; heads count from 0")
        return attention_map(weights[head].numpy(), queries, keys, f"head {head}")
    if isinstance(model, EncoderDecoder):
        return attention_map(weights.mean(0).numpy(), queries, keys, "")
    return head_grid(weights.numpy(), queries, keys, "")


def _layer(seen: dict[str, list[torch.Tensor]], tower: str, part: str, layer: int) -> torch.Tensor:
    """The weights (H, T, S) of one layer among those recorded."""
    places = [place for place in seen if place.startswith(tower) and place.endswith(part)]
    if not -len(places) <= layer < len(places):
        raise InputError(f"layer {layer} of {len(places)}; layers count from 0")
    return seen[places[layer]][0][0].float().cpu()
