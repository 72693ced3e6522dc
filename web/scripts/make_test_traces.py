"""Write the small traces that the page's tests read: `python web/scripts/make_test_traces.py`.

Four models with random weights and every tensor recorded: an encoder-decoder on two Korean
sentences; a BERT-like encoder with a smaller embedding dimension; a T5-like encoder; a Llama-like
decoder with one muted head.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from jumok.interpret import recorder
from jumok.interpret.schema import Side, Tokens, TraceInfo
from jumok.interpret.trace import Trace
from jumok.models import Decoder, Encoder, EncoderDecoder, TransformerConfig
from jumok.models.points import mute_heads
from jumok.nn.masks import AttentionMask

FOLDER = Path(__file__).parents[1] / "src" / "testing"
WINTER = ("[CLS]", "▁겨울", "은", "▁추", "워", "요", ".")
COLD = ("[CLS]", "▁감", "기", "▁조", "심", "하세요")
SPRING = ("[BOS]", "▁봄", "이", "▁왔", "다")
HERE = ("[BOS]", "▁여기", "요")
SPECIAL = ("[PAD]", "[CLS]", "[BOS]")
VOCABULARY = (*SPECIAL, *dict.fromkeys(WINTER[1:] + COLD[1:] + SPRING[1:] + HERE[1:]))


def tokens(pieces: tuple[str, ...], width: int, segments: bool) -> Tokens:
    """Return a sequence of pieces, padded on the right to `width`."""
    spans, words, end = [], [], 0
    for number, piece in enumerate(pieces):
        if piece in SPECIAL:
            spans.append((0, 0))
            words.append(-1)
            continue
        starts_word = piece.startswith("▁")
        end += starts_word and end > 0
        spans.append((end, end + len(piece) - starts_word))
        end = spans[-1][1]
        words.append(max(words[:number], default=-1) + starts_word)
    n_padding = width - len(pieces)
    return Tokens(
        text="".join(piece for piece in pieces if piece not in SPECIAL).replace("▁", " ").strip(),
        pieces=pieces + ("[PAD]",) * n_padding,
        ids=tuple(VOCABULARY.index(piece) for piece in pieces) + (0,) * n_padding,
        spans=(*spans, *((end, end),) * n_padding),
        special=tuple(int(piece in SPECIAL) for piece in pieces) + (1,) * n_padding,
        real=(1,) * len(pieces) + (0,) * n_padding,
        words=tuple(words) + (-1,) * n_padding,
        segments=tuple(int(i > 3) for i in range(width)) if segments else None,
    )


def write_trace(
    name: str,
    config: TransformerConfig,
    rows: dict[Side, tuple[tuple[str, ...], ...]],
    muted: tuple[tuple[str, int, int], ...] = (),
) -> Path:
    """Write the trace of a model with random weights and return its path."""
    torch.manual_seed(5)
    sides = {
        side: tuple(tokens(row, max(map(len, batch)), bool(config.n_segments)) for row in batch)
        for side, batch in rows.items()
    }
    ids = {side: torch.tensor([row.ids for row in batch]) for side, batch in sides.items()}
    attention_mask = {
        side: torch.tensor([row.real for row in batch]).bool() for side, batch in sides.items()
    }
    masks = {
        side: AttentionMask.from_padding(mask, causal=side == "target")
        for side, mask in attention_mask.items()
    }
    model: EncoderDecoder | Encoder | Decoder
    if len(rows) == 2:
        model = EncoderDecoder(config)
    else:
        model = Encoder(config) if "source" in rows else Decoder(config)
    for parameter in model.parameters():  # so that norms and biases are not the identity
        parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    model.eval().requires_grad_(False)
    muted_heads = mute_heads(model, muted)
    with torch.inference_mode(), recorder.record(model) as recorded:
        if isinstance(model, EncoderDecoder):
            model(ids["source"], ids["target"], masks["source"], masks["target"])
        elif isinstance(model, Encoder):
            segments = torch.tensor([row.segments or (0,) for row in sides["source"]])
            model(ids["source"], masks["source"], segments=segments.expand_as(ids["source"]))
        else:
            model(ids["target"], masks["target"])
    lengths = {side: batch.shape[1] for side, batch in ids.items()}
    recorded |= recorder.constant_tensors(model, lengths) | recorder.parameter_tensors(model)
    info = TraceInfo(
        title=name,
        task=None,
        model=recorder.model_info(model, config, "jumok"),
        made={},
        blocks=recorder.describe_blocks(model),
        sides=sides,
        muted=muted_heads,
    )
    return Trace.from_tensors(recorder.to_arrays(recorded), info).save(
        FOLDER / f"{name}.safetensors"
    )


def main() -> None:
    """Write all four traces."""
    tiny = TransformerConfig(
        vocabulary_size=len(VOCABULARY), d_model=8, n_heads=2, d_ff=16, n_layers=1, max_length=16
    )
    variant = partial(replace, tiny)
    paper = variant(n_layers=2, n_decoder_layers=1)
    write_trace("small", paper, {"source": (WINTER, COLD), "target": (SPRING, HERE)})
    write_trace(
        "small-bert",
        variant(
            positions="learned",
            n_segments=2,
            embedding_norm=True,
            d_embedding=4,
            activation="gelu",
            scale_embedding=False,
        ),
        {"source": (WINTER,)},
    )
    write_trace(
        "small-t5",
        variant(
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
    write_trace(
        "small-llama",
        variant(
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
