"""Makes the small traces that the page's tests read: `python web/scripts/small.py`.

Four models with random weights, every number kept: the paper's encoder-decoder over the notes'
two sentences; BERT's kind, tokens narrower than layers; T5's kind; Llama's kind, one head muted.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from jumok.interpret import recorder as collect
from jumok.interpret.muting import mute_heads
from jumok.interpret.schema import Side, Tokens, TraceInfo
from jumok.interpret.trace import Trace
from jumok.models import Decoder, Encoder, EncoderDecoder, TransformerConfig
from jumok.nn.masks import AttentionMask

FOLDER = Path(__file__).parents[1] / "src" / "testing"
WINTER = ("[CLS]", "▁겨울", "은", "▁추", "워", "요", ".")
COLD = ("[CLS]", "▁감", "기", "▁조", "심", "하세요")
SPRING = ("[BOS]", "▁봄", "이", "▁왔", "다")
HERE = ("[BOS]", "▁여기", "요")
SPECIAL = ("[PAD]", "[CLS]", "[BOS]")
VOCABULARY = (*SPECIAL, *dict.fromkeys(WINTER[1:] + COLD[1:] + SPRING[1:] + HERE[1:]))


def tokens(pieces: tuple[str, ...], width: int, segments: bool) -> Tokens:
    """A sequence of pieces, padded on the right."""
    spans, words, at = [], [], 0
    for number, piece in enumerate(pieces):
        if piece in SPECIAL:
            spans.append((0, 0))
            words.append(-1)
            continue
        begins = piece.startswith("▁")
        at += begins and at > 0
        spans.append((at, at + len(piece) - begins))
        at = spans[-1][1]
        words.append(max(words[:number], default=-1) + begins)
    fill = width - len(pieces)
    return Tokens(
        text="".join(piece for piece in pieces if piece not in SPECIAL).replace("▁", " ").strip(),
        pieces=pieces + ("[PAD]",) * fill,
        ids=tuple(VOCABULARY.index(piece) for piece in pieces) + (0,) * fill,
        spans=(*spans, *((at, at),) * fill),
        special=tuple(int(piece in SPECIAL) for piece in pieces) + (1,) * fill,
        real=(1,) * len(pieces) + (0,) * fill,
        words=tuple(words) + (-1,) * fill,
        segments=tuple(int(i > 3) for i in range(width)) if segments else None,
    )


def make(
    name: str,
    config: TransformerConfig,
    rows: dict[Side, tuple[tuple[str, ...], ...]],
    muted: tuple[tuple[str, int, int], ...] = (),
) -> Path:
    """One trace of a model with random weights."""
    torch.manual_seed(5)
    sides = {
        side: tuple(tokens(row, max(map(len, both)), bool(config.n_segments)) for row in both)
        for side, both in rows.items()
    }
    ids = {side: torch.tensor([row.ids for row in both]) for side, both in sides.items()}
    real = {side: torch.tensor([row.real for row in both]).bool() for side, both in sides.items()}
    seeing = {
        side: AttentionMask.from_padding(there, causal=side == "target")
        for side, there in real.items()
    }
    model: EncoderDecoder | Encoder | Decoder
    if len(rows) == 2:
        model = EncoderDecoder(config)
    else:
        model = Encoder(config) if "source" in rows else Decoder(config)
    for parameter in model.parameters():  # norms and biases that do something, too
        parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    model.eval().requires_grad_(False)
    off = mute_heads(model, muted)
    with torch.inference_mode(), collect.record(model) as seen:
        if isinstance(model, EncoderDecoder):
            model(ids["source"], ids["target"], seeing["source"], seeing["target"])
        elif isinstance(model, Encoder):
            segments = torch.tensor([row.segments or (0,) for row in sides["source"]])
            model(ids["source"], seeing["source"], segments=segments.expand_as(ids["source"]))
        else:
            model(ids["target"], seeing["target"])
    lengths = {side: there.shape[1] for side, there in ids.items()}
    seen |= collect.constant_tensors(model, lengths) | collect.parameter_tensors(model)
    info = TraceInfo(
        title=name,
        task=None,
        model=collect.model_info(model, config, "jumok"),
        made={},
        blocks=collect.describe_blocks(model),
        sides=sides,
        muted=off,
    )
    return Trace.from_tensors(collect.to_arrays(seen), info).save(FOLDER / f"{name}.safetensors")


def main() -> None:
    """All four."""
    tiny = TransformerConfig(
        vocabulary_size=len(VOCABULARY), d_model=8, n_heads=2, d_ff=16, n_layers=1, max_length=16
    )
    alter = partial(replace, tiny)
    paper = alter(n_layers=2, n_decoder_layers=1)
    make("small", paper, {"source": (WINTER, COLD), "target": (SPRING, HERE)})
    make(
        "small-bert",
        alter(
            positions="learned",
            n_segments=2,
            embedding_norm=True,
            d_embedding=4,
            activation="gelu",
            scale_embedding=False,
        ),
        {"source": (WINTER,)},
    )
    make(
        "small-t5",
        alter(
            positions="relative",
            norm="rms",
            norm_first=True,
            gated=True,
            activation="gelu_tanh",
            bias=False,
            attention_scale=1.0,
            scale_embedding=False,
        ),
        {"source": (WINTER, COLD)},
    )
    make(
        "small-llama",
        alter(
            positions="rotary",
            norm="rms",
            norm_first=True,
            gated=True,
            activation="silu",
            bias=False,
            scale_embedding=False,
        ),
        {"target": (SPRING, HERE)},
        (("decoder", 0, 1),),
    )


if __name__ == "__main__":
    main()
