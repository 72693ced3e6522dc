"""Who looks where: the attention of a run to a text, as a picture."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from jumok.errors import InputError
from jumok.models import EncoderDecoder
from jumok.nn.hooks import record
from jumok.tasks.answering import Loaded
from jumok.tasks.continuation import prompt
from jumok.tasks.frames import target_begin
from jumok.tasks.masked_language_modeling import read_blanks
from jumok.tasks.pairs import PairEncoder
from jumok.tasks.sequence_to_sequence import SequenceToSequence
from jumok.tasks.texts import TextEncoder, segments_of
from jumok.typography import save
from jumok.viewer.figures import attention_map, head_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(loaded: Loaded, text: str, path: Path, layer: int = -1, head: int | None = None) -> Path:
    """Draw the attention to `text` into `path` and return it.

    Of a sequence-to-sequence model the cross-attention from what it writes to what it reads;
    otherwise the text's own. `layer` counts from 0 (or back from -1); without `head` a mean
    over the heads is drawn for cross-attention, all heads side by side for a text's own.
    """
    save(_figure(loaded, text, layer, head), path)
    return path


@dataclass(frozen=True)
class Look:
    """Weights (H, T, S) of one layer, and the pieces that ask (T) and are looked at (S)."""

    weights: torch.Tensor
    queries: list[str]
    keys: list[str]
    place: str  # what the layer is, for a title


def _figure(loaded: Loaded, text: str, layer: int, head: int | None) -> "Figure":
    crossing = isinstance(loaded.model, EncoderDecoder)
    look = _cross(loaded, text, layer) if crossing else _own(loaded, text, layer)
    n_heads = len(look.weights)
    if head is not None:
        if not 0 <= head < n_heads:
            raise InputError(f"head {head} of {n_heads}; heads count from 0")
        title = f"{look.place}, head {head}"
        return attention_map(look.weights[head].numpy(), look.queries, look.keys, title)
    if crossing:
        title = f"{look.place}, mean of {n_heads} heads"
        return attention_map(look.weights.mean(0).numpy(), look.queries, look.keys, title)
    return head_grid(look.weights.numpy(), look.queries, look.keys, look.place)


@torch.inference_mode()
def _cross(loaded: Loaded, text: str, layer: int) -> Look:
    """From each written piece, the moment it is chosen, to what is read."""
    reading, writing = loaded.vocabulary, loaded.target_vocabulary
    model, task = loaded.model, loaded.task
    assert isinstance(model, EncoderDecoder)
    assert isinstance(task, SequenceToSequence)
    best = task.write(loaded, [text])[0][0].written
    ended = len(best.log_probabilities) > len(best.ids)  # by [EOS]
    chosen = [*best.ids, writing.eos_id] if ended else best.ids
    row = PairEncoder(reading, writing, loaded.recipe.model.max_length).sources([text])[0]
    source = torch.tensor([row.tolist()], device=loaded.device)
    target = torch.tensor([[target_begin(writing), *chosen[:-1]]], device=loaded.device)
    with record(model) as seen:
        model(source, target)
    weights, number = _layer(seen, "decoder", ".cross", layer)
    keys = [reading.piece(int(i)) for i in row]
    queries = [writing.piece(i) for i in chosen]
    return Look(weights, queries, keys, f"cross-attention, layer {number}")


@torch.inference_mode()
def _own(loaded: Loaded, text: str, layer: int) -> Look:
    """From each piece of the text, or of the pair, to those it may see, in the only tower."""
    vocabulary, recipe = loaded.vocabulary, loaded.recipe
    encode = TextEncoder(vocabulary, recipe.model.max_length)
    tower = "encoder"
    if recipe.task == "language_modeling":
        row, tower = prompt(loaded, text)[-recipe.model.max_length :], "decoder"
    elif recipe.task == "masked_language_modeling":
        row = read_blanks([text], encode)[0].tolist()
    else:
        row = encode.of_lines([text], recipe.paired)[0].tolist()
    ids = torch.tensor([row])
    parted = recipe.paired and recipe.model.n_segments
    with record(loaded.model) as seen:
        loaded.logits(ids, token_type_ids=segments_of(ids, vocabulary.sep_id) if parted else None)
    weights, number = _layer(seen, tower, ".attention", layer)
    pieces = [vocabulary.piece(i) for i in row]
    return Look(weights, pieces, pieces, f"self-attention, layer {number}")


def _layer(
    seen: dict[str, list[torch.Tensor]], tower: str, part: str, layer: int
) -> tuple[torch.Tensor, int]:
    """The weights (H, T, S) of one layer among those recorded, and its number."""
    places = [place for place in seen if place.startswith(tower) and place.endswith(part)]
    if not -len(places) <= layer < len(places):
        raise InputError(f"layer {layer} of {len(places)}; layers count from 0")
    number = layer % len(places)
    return seen[places[number]][0][0].float().cpu(), number
