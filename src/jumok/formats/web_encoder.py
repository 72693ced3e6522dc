"""`--to web` of encoders: labels and scores of texts and pairs, tags, masked words, vectors.

Shapes: n texts, T tokens, L outputs, V vocabulary.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jumok.data.table import Table
from jumok.errors import Message
from jumok.export.report import relative_difference
from jumok.export.samples import Scores, numeric_scores, to_lists
from jumok.formats.onnx_session import with_logits_from
from jumok.formats.web_model import (
    PackedEncoder,
    WebPrecision,
    add_head,
    packed_arrays,
    packed_dims,
)
from jumok.formats.web_tokenizer import (
    tokenizer_arrays,
    tokenizer_config,
    unsupported_tokenizer,
)
from jumok.inference.text_session import head_of
from jumok.models import (
    CharacterClassifier,
    Encoder,
    MaskedLanguageModel,
    PairClassifier,
    SentenceEncoder,
    TextClassifier,
    TokenClassifier,
)
from jumok.models.heads import EncoderModel
from jumok.native.layout import Array, Arrays, encoder_dims, unsupported_encoder
from jumok.native.session import Head, HeadPooling, Ids
from jumok.native.torch_weights import activation_name
from jumok.pretrained.sentence_encoding import DenseLayer, SentenceEncoding
from jumok.tasks.inputs.masking import PieceInfo
from jumok.tasks.inputs.text_encoder import TextEncoder, row_token_types, uses_token_types
from jumok.tasks.pipeline.fill_mask import MASK, encode_with_masks
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.pipeline.text_vectors import pool_texts
from jumok.tasks.runs.evaluate import evaluate
from jumok.text.pretrained import PretrainedTokenizer
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer, piece_or_empty
from jumok.viewer.example_texts import example_texts

VECTORS = "similarity"  # the task of a model whose outputs are vectors
TEXTS = ("겨울은 추워요.", "영화가 정말 재미있었어요!", "비가 와서 집에 있었다.")
# Whose ids the page computes again when it opens: decomposed and old Hangul, joiners, bytes.
ODD_TEXTS = (
    "\u1112\u1161\u11ab\u1100\u1173\u11af ㅋㅋ \u1112\u119e\u11ab",
    "👨\u200d👩\u200d👧 👍🏽 ㈜ … \ufeff漢字",
    "caf\u0065\u0301 ÀÉÎ don't 3,500원! <0x41> [MASK]",
)
_MODELS = (TextClassifier, PairClassifier, TokenClassifier, MaskedLanguageModel)
_OF_TOKENS = (TokenClassifier, MaskedLanguageModel)
_ACTIVATIONS = (nn.Identity, nn.Tanh, nn.ReLU, nn.GELU, nn.SiLU)


def unsupported_encoder_model(pipeline: Pipeline) -> Message | None:
    """Why the page cannot compute the outputs of this encoder; None if it can."""
    model = pipeline.model
    if isinstance(model, CharacterClassifier):
        return Message(
            "web.tags_of_characters",
            "the page tags pieces, got a classifier of characters; train it with "
            'model.tagging = "pieces"',
        )
    if type(model) not in (*_MODELS, SentenceEncoder, Encoder):
        return Message(
            "web.model_class",
            "the page runs classifiers of texts, pairs and tokens, regression, masked words, "
            "vectors of texts, encoder-decoders and language models, got the class {kind}",
            kind=type(model).__name__,
        )
    encoding = _encoding(pipeline)
    dense = () if encoding is None else encoding.steps
    for step in dense:
        if isinstance(step, DenseLayer) and type(step.activation) not in _ACTIVATIONS:
            return Message(
                "web.dense_activation",
                "the page has no activation {activation} in dense layers of sentence-transformers",
                activation=type(step.activation).__name__,
            )
    reason = unsupported_encoder(pipeline.recipe.model)
    return reason or unsupported_tokenizer(pipeline.vocabulary)


def packed_encoder(
    pipeline: Pipeline, weights: Arrays, precision: WebPrecision
) -> tuple[dict[str, Array], dict[str, Any]]:
    """The tensors and the settings of the packed file of an encoder."""
    tokenizer, recipe, model = pipeline.vocabulary, pipeline.recipe, pipeline.model
    encoding = _encoding(pipeline)
    config = recipe.model
    longest = min(config.max_length, (encoding and encoding.max_length) or config.max_length)
    if isinstance(model, Encoder):  # whose weights have no prefix
        weights = {f"encoder.{name}": weights[name] for name in weights}
    arrays = packed_arrays(config, weights, precision)
    settings = packed_dims(encoder_dims(config), precision)
    settings["head"] = _packed_head(pipeline, encoding, weights, arrays)
    settings |= {
        "task": VECTORS if isinstance(model, Encoder) else recipe.task,
        "prompt": encoding.prompt("") if encoding else "",
        "lower_case": bool(encoding and encoding.lower_case),
        "pairs": _pairs(pipeline),
        "tokenizer": tokenizer_config(tokenizer, longest, reads_types=_reads_types(pipeline)),
        "odd_texts": [[text, tokenizer.encode(text)] for text in ODD_TEXTS],
    }
    if isinstance(model, MaskedLanguageModel):
        settings["mask"] = _mask_settings(tokenizer)
    packed = PackedEncoder(arrays, settings)
    settings["examples"] = [
        _example(pipeline, line, settings, packed) for line in _example_lines(pipeline)
    ]
    return arrays | tokenizer_arrays(tokenizer), settings


def _encoding(pipeline: Pipeline) -> SentenceEncoding | None:
    """How vectors of texts are made; None for a model of something else."""
    if not isinstance(pipeline.model, Encoder | SentenceEncoder):
        return None
    return pipeline.sentence_encoding or pipeline.default_encoding


def _pairs(pipeline: Pipeline) -> str:
    """Whether the model reads pairs: "always", "optional" or "never"."""
    if isinstance(pipeline.model, Encoder | SentenceEncoder | MaskedLanguageModel):
        return "never"
    if pipeline.recipe.reads_pairs:
        return "always"
    return "optional" if pipeline.optional_pairs else "never"


def _packed_head(
    pipeline: Pipeline,
    encoding: SentenceEncoding | None,
    weights: Arrays,
    arrays: dict[str, Array],
) -> dict[str, Any]:
    """The settings of the head, whose weights are added to `arrays`."""
    model, config = pipeline.model, pipeline.recipe.model
    head, dense = _head(pipeline, encoding), []
    by_table = isinstance(model, MaskedLanguageModel) and (
        model.output.weight is model.encoder.embedding.tokens.weight
    )
    add_head(arrays, head, weights, by_table=by_table)
    for number, step in enumerate(encoding.steps if encoding else ()):
        if not isinstance(step, DenseLayer):
            dense.append({"linear": "", "activation": "none"})  # divided by its length
            continue
        name, identity = f"dense.{number}", isinstance(step.activation, nn.Identity)
        activation = "none" if identity else activation_name(step.activation)
        dense.append({"linear": name, "activation": activation})
        arrays[f"head.{name}"] = step.weight.float().numpy()
        if step.bias is not None:
            arrays[f"head.{name}.bias"] = step.bias.float().numpy()
    return {
        **asdict(head),
        "of_tokens": isinstance(model, _OF_TOKENS),
        "by_table": by_table,
        "dense": dense,
        "norm_eps": config.norm_eps,
        "rms": config.norm == "rms",
    }


def _head(pipeline: Pipeline, encoding: SentenceEncoding | None) -> Head:
    """What follows the last layer: of a token, its hidden state is "first"."""
    model = pipeline.model
    if encoding is not None:
        return Head(encoding.pooling, normalize=pipeline.sentence_encoding is None)
    if not isinstance(model, TokenClassifier | MaskedLanguageModel):
        found = head_of(model)
        assert found is not None  # of one of the supported models
        return found
    pooling: HeadPooling = "first"
    if isinstance(model.transform, nn.Identity):
        return Head(pooling, "output")
    activation = activation_name(model.transform[1])
    return Head(pooling, "output", "transform.0", activation, norm="transform.2")


def _mask_settings(tokenizer: Tokenizer) -> dict[str, Any]:
    """What filling masks needs to know of the pieces: `jumok.tasks.pipeline.fill_mask`."""
    pieces = PieceInfo.of(tokenizer)
    own = tokenizer.mask_id
    starts = np.flatnonzero(pieces.starts_word)
    inside = np.flatnonzero(pieces.maskable & ~pieces.starts_word)
    return {
        "id": own,
        "typed": piece_or_empty(tokenizer, own),
        "imported": isinstance(tokenizer, PretrainedTokenizer),
        "keeps_spaces": tokenizer.has_space_pieces,
        "starts_text": tokenizer.word_starts_after(""),
        "excluded": sorted({*range(tokenizer.n_embeddings)} - {*starts, *inside}),
    }


def input_rows(pipeline: Pipeline, line: str, max_length: int) -> Ragged:
    """The input ids of a text, of a pair with a TAB, or of a text with masks."""
    encoding, encode = _encoding(pipeline), TextEncoder(pipeline.vocabulary, max_length)
    if isinstance(pipeline.model, MaskedLanguageModel):
        return encode_with_masks([line], encode)
    if encoding is not None:
        text = encoding.prompt("") + line
        return encode([text.lower() if encoding.lower_case else text])
    return encode.encode_lines([line], paired=pipeline.is_pair(line))


def _example_lines(pipeline: Pipeline) -> list[str]:
    """A few lines that the page shows and checks."""
    found = [*example_texts(pipeline)] if pipeline.recipe.reads_pairs else []
    if isinstance(pipeline.model, MaskedLanguageModel):
        found = [line for line in example_texts(pipeline) if MASK in line]
        found = found or [f"{text[:2]} {MASK} {text[-3:]}" for text in TEXTS]
    elif pipeline.recipe.reads_pairs:
        found = found or [f"{a}\t{b}" for a, b in zip(TEXTS, TEXTS[1:] + TEXTS[:1], strict=True)]
    else:
        found = [*TEXTS]
    return [line for line in found if pipeline.vocabulary.encode(line)]


def _example(
    pipeline: Pipeline, line: str, settings: Mapping[str, Any], packed: PackedEncoder
) -> dict[str, Any]:
    """A text, its input ids and the outputs of the native kernel."""
    rows = input_rows(pipeline, line, settings["tokenizer"]["max_length"])
    found = packed.outputs(rows, _types(pipeline, rows))
    example: dict[str, Any] = {}
    if isinstance(pipeline.model, MaskedLanguageModel):  # the most probable piece of each mask
        masked = torch.from_numpy(found[rows.ids == pipeline.vocabulary.mask_id])
        log_p = masked.log_softmax(-1)  # (masks, V)
        best = log_p.argmax(-1)
        found = log_p.gather(-1, best[:, None]).numpy()
        example["filled"] = best.tolist()
    text, _, pair = line.partition("\t")
    ids = [int(i) for i in rows[0]]
    outputs = [float(str(x)) for x in found.ravel()]  # the shortest digits of float32
    paired = pipeline.is_pair(line)
    return {
        "text": text if paired else line,
        **({"pair": pair} if paired else {}),
        "ids": ids,
        "outputs": outputs,
        **example,
    }


def _reads_types(pipeline: Pipeline) -> bool:
    """Whether the model reads to which text of a pair a token belongs."""
    config = pipeline.recipe.model
    return _pairs(pipeline) != "never" and uses_token_types(
        pipeline.vocabulary, config.n_segments, config.pooling
    )


def _types(pipeline: Pipeline, rows: Ragged) -> Ids | None:
    """The token types of rows; None for a model that reads none."""
    if not _reads_types(pipeline):
        return None
    return row_token_types(rows, pipeline.vocabulary.sep_id)


def encoder_scores(pipeline: Pipeline, packed: PackedEncoder, table: Table) -> Scores:
    """The scores that the task gives the packed file in the native kernel."""

    def logits(ids: Tensor, mask: Tensor, segments: Tensor | None) -> Tensor:
        real = mask.bool()
        rows = [row[own].tolist() for row, own in zip(ids, real, strict=True)]
        types = None if segments is None else segments[real].numpy().astype(np.int32)
        found = torch.from_numpy(packed.outputs(Ragged.from_lists(rows), types))
        if not isinstance(pipeline.model, _OF_TOKENS):
            return found
        padded = found.new_zeros(*ids.shape, found.shape[-1])
        padded[real] = found
        return padded

    return numeric_scores(evaluate(with_logits_from(pipeline, logits), table, "dev").scores)


@torch.inference_mode()
def encoder_difference(pipeline: Pipeline, packed: PackedEncoder, rows: Ragged) -> float:
    """The difference of the outputs of the packed file in the native kernel."""
    return relative_difference(_outputs(pipeline, packed, rows))


def _outputs(
    pipeline: Pipeline, packed: PackedEncoder, rows: Ragged
) -> Iterator[tuple[Tensor, Tensor]]:
    """The outputs of the packed file and of the model, for each row."""
    encoding = _encoding(pipeline)
    for row in to_lists(rows):
        one = Ragged.from_lists([row])
        types = _types(pipeline, one)
        segments = None if types is None else torch.from_numpy(types).long()[None]
        ids = torch.tensor([row])
        if encoding is None:
            assert isinstance(pipeline.model, EncoderModel)
            expected = pipeline.model(ids, segments=segments)
        else:
            hidden = pipeline.model.hidden_states(ids)  # type: ignore[operator]
            expected = _vectors(pool_texts(hidden.float(), None, encoding.pooling), pipeline)
        yield torch.from_numpy(packed.outputs(one, types)), expected.reshape(-1, expected.shape[-1])


def _vectors(x: Tensor, pipeline: Pipeline) -> Tensor:
    """Vectors as `Pipeline.encode` makes them of pooled hidden states."""
    if pipeline.sentence_encoding is None:
        return F.normalize(x, dim=-1)
    for step in pipeline.sentence_encoding.steps:
        x = step(x)
    return x
