"""The model under test and its inputs; by default one batch.

Shapes: B samples, S source tokens, T target tokens, V outputs per token, L outputs per text.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from jumok.data.packing import pad
from jumok.data.splits import SEQUENCES
from jumok.data.table import Table
from jumok.errors import InputError
from jumok.models import (
    EncoderDecoder,
    EncoderDecoderClassifier,
    LanguageModel,
    PairClassifier,
    TextClassifier,
)
from jumok.tasks.inputs.seq2seq_encoder import Seq2SeqEncoder
from jumok.tasks.inputs.text_encoder import TextInputs, token_type_ids, uses_token_types
from jumok.tasks.pipeline.causal_generation import prompt_ids
from jumok.tasks.pipeline.outputs import GeneratedText
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.pipeline.sequence_classification import encode_lines
from jumok.tasks.runs.evaluate import evaluation_tables
from jumok.text.ragged import Ids

MAX_TOKENS = 512  # of a random sample; longer ones take more time and check nothing new
N_TEXTS = 4
MAX_ROWS = 100  # dev rows to choose the texts from
MAX_TEXT_CHARS = 2_000  # some corpora are a single text

Outputs = list[Tensor]  # one per sample, float32 on the CPU: (L,) per text or (n, V) per token


@dataclass(frozen=True, eq=False)
class Sample:
    """The ids of one text, and decoder inputs for an encoder-decoder."""

    ids: Tensor  # (S,) int64
    segments: Tensor | None = None  # (S,) int64
    target: Tensor | None = None  # (T,) int64


@dataclass(frozen=True, eq=False)
class CheckTarget:
    """A model and its inputs; padding holds `padding_id`, any id: outputs must not depend on it.

    The first `n_texts` samples come from real texts, the others are random.
    """

    pipeline: Pipeline
    samples: Sequence[Sample]
    n_texts: int = 0
    padding_id: int = 0

    def with_model(self, model: nn.Module) -> "CheckTarget":
        """A target with another module and these inputs; the original pipeline is not modified."""
        pipeline = copy.copy(self.pipeline)
        pipeline.model = model
        return replace(self, pipeline=pipeline)

    def with_samples(self, samples: Sequence[Sample]) -> "CheckTarget":
        """A target with this model and other inputs."""
        return replace(self, samples=samples)


Variant = Callable[[CheckTarget], Outputs]  # a computation; raises NotApplicable


def batched(target: CheckTarget) -> Outputs:
    """All samples in one batch, padded on the right."""
    return _in_one_batch(target, left=False)


def padded_left(target: CheckTarget) -> Outputs:
    """All samples in one batch, sources padded on the left.

    Decoder inputs are padded on the right as always: causal attention never sees that padding.
    """
    return _in_one_batch(target, left=True)


def unbatched(target: CheckTarget) -> Outputs:
    """Each sample alone, without padding."""
    return [batched(target.with_samples([sample]))[0] for sample in target.samples]


def unpad(outputs: Tensor, mask: Tensor) -> Outputs:
    """The outputs of the real tokens of a batch, one tensor per sample.

    outputs (B, n, V), or (B, n) with one output per token; mask (B, n).

    >>> mask = torch.tensor([[True, False], [True, True]])
    >>> [tuple(output.shape) for output in unpad(torch.zeros(2, 2, 7), mask)]
    [(1, 7), (2, 7)]
    """
    outputs, mask = outputs.float().cpu(), mask.cpu()
    if outputs.ndim == 2:
        outputs = outputs[..., None]
    return [output[row] for output, row in zip(outputs, mask, strict=True)]


def padded(rows: Sequence[Tensor], padding_id: int, *, left: bool = False) -> tuple[Tensor, Tensor]:
    """Pad rows (n_i,) to one length: ids (B, n) int64, mask (B, n) bool.

    >>> ids, mask = padded([torch.tensor([4, 5]), torch.tensor([6])], 9, left=True)
    >>> ids.tolist(), mask.int().tolist()
    ([[4, 5], [9, 6]], [[1, 1], [0, 1]])
    """
    batch = pad([row.numpy() for row in rows], padding_id, left=left)
    return torch.from_numpy(batch.ids), torch.from_numpy(batch.mask)


def _in_one_batch(target: CheckTarget, *, left: bool) -> Outputs:
    pipeline, samples, device = target.pipeline, target.samples, target.pipeline.device
    ids, mask = padded([sample.ids for sample in samples], target.padding_id, left=left)
    types = [sample.segments for sample in samples if sample.segments is not None]
    segments = padded(types, 0, left=left)[0].to(device) if types else None
    targets = [sample.target for sample in samples if sample.target is not None]
    decoder_ids, output_mask = padded(targets, target.padding_id) if targets else (None, mask)
    compute = pipeline.logits if pipeline.has_logits else pipeline.hidden_states
    outputs = compute(ids.to(device), mask.to(device), segments, decoder_ids)
    of_texts = TextClassifier | PairClassifier | EncoderDecoderClassifier
    if isinstance(pipeline.model, of_texts) or (pipeline.is_own and outputs.ndim == 2):
        return list(outputs.cpu())
    return unpad(outputs, output_mask)


def dev_texts(pipeline: Pipeline) -> list[str]:
    """A few dev texts of a run, short and long ones; TAB separates the texts of a pair.

    Raises InputError if the data are not available.
    """
    table = evaluation_tables(pipeline.recipe, "dev", pipeline.labels)["dev"]
    lines = sorted(_lines(table, pipeline.recipe.columns, pipeline), key=len)
    indices = np.linspace(0, len(lines) - 1, N_TEXTS).round().astype(int)
    return list(dict.fromkeys(lines[i] for i in indices))


def text_samples(
    pipeline: Pipeline, lines: Sequence[str], *, generate: bool = True
) -> list[Sample]:
    """The lines encoded for the model's task. Raises InputError without a vocabulary.

    A TAB is followed by the second text of a pair, or by the target of a source; without it the
    model generates the target, unless `generate` is False: then the source is the only input.
    """
    model, vocabulary = pipeline.model, pipeline.vocabulary
    max_length = pipeline.recipe.model.max_length
    if isinstance(model, LanguageModel):
        return [Sample(torch.tensor(prompt_ids(pipeline, line)[:max_length])) for line in lines]
    if isinstance(model, EncoderDecoder):
        encode = Seq2SeqEncoder(vocabulary, pipeline.target_vocabulary, max_length)
        if not generate:
            rows = encode.sources(lines)
            return [Sample(_ids(rows[i])) for i in range(len(lines))]
        sources, _, targets = zip(*(line.partition("\t") for line in lines), strict=True)
        generated = [t or _generate(pipeline, s) for s, t in zip(sources, targets, strict=True)]
        encoded, shifted = encode.sources(sources), encode.targets(generated)
        return [Sample(_ids(encoded[i]), target=_ids(shifted[i][:-1])) for i in range(len(lines))]
    rows = encode_lines(pipeline, lines)
    ids = [_ids(rows[i]) for i in range(len(rows))]
    segments: list[Tensor | None] = [None] * len(ids)
    config = pipeline.recipe.model
    if uses_token_types(vocabulary, config.n_segments, config.pooling):
        segments = [token_type_ids(row[None], vocabulary.sep_id)[0] for row in ids]
    decodes = isinstance(model, EncoderDecoderClassifier)
    start = torch.tensor([vocabulary.decoder_start_id]) if decodes else None
    return [Sample(row, types, start) for row, types in zip(ids, segments, strict=True)]


def draw_samples(pipeline: Pipeline, seed: int = 0) -> list[Sample]:
    """Random ids without special ones: one token, a few, many, and the maximum length."""
    config = pipeline.recipe.model
    max_length = min(config.max_length, MAX_TOKENS)
    lengths = sorted({1, min(3, max_length), (max_length + 3) // 4, max_length})
    source_ids = _ordinary(pipeline, config.vocabulary_size)
    target_ids = _ordinary(pipeline, config.output_size)
    generator = torch.Generator().manual_seed(seed)

    def draw(ids: Tensor, n: int) -> Tensor:
        return ids[torch.randint(len(ids), (n,), generator=generator)]

    samples = []
    for i, n in enumerate(lengths):
        target = None
        if isinstance(pipeline.model, EncoderDecoder):
            target = draw(target_ids, lengths[i - 1])  # another length than the source
        elif isinstance(pipeline.model, EncoderDecoderClassifier):
            target = source_ids[:1]  # the same for all, like [BOS]
        segments = (torch.arange(n) >= (n + 1) // 2).long() if config.n_segments > 1 else None
        samples.append(Sample(draw(source_ids, n), segments, target))
    return samples


def _ordinary(pipeline: Pipeline, size: int) -> Tensor:
    """All ids that are not special pieces.

    Without a vocabulary, the middle half of all ids: vocabularies have their special pieces at
    the beginning or at the end.
    """
    try:
        tokenizers = (pipeline.vocabulary, pipeline.target_vocabulary)
    except InputError:
        return torch.arange(size // 4, max(size - size // 4, size // 4 + 1))
    ordinary = torch.ones(size, dtype=torch.bool)
    special = [i for tokenizer in tokenizers for i in tokenizer.special_ids.values()]
    ordinary[[i for i in special if i < size]] = False
    return ordinary.nonzero()[:, 0]


def _lines(table: Table, columns: Sequence[str], pipeline: Pipeline) -> list[str]:
    """The first rows as lines: a text, a pair of texts, or a source and its target."""
    rows = table.slice(0, MAX_ROWS)
    if columns == SEQUENCES:
        cells = zip(*(rows.column(name) for name in SEQUENCES), strict=True)
        return ["\t".join(pair) for pair in cells]
    texts = TextInputs.from_table(rows, pipeline.recipe.data.pieces)
    if pipeline.recipe.reads_pairs and texts.pairs is not None:
        return ["\t".join(pair) for pair in zip(texts.texts, texts.pairs, strict=True)]
    return [text[:MAX_TEXT_CHARS] for text in texts.texts]


def _generate(pipeline: Pipeline, source: str) -> str:
    output = pipeline(source)
    assert isinstance(output, GeneratedText)  # the output of an encoder-decoder
    return output.output


def _ids(row: Ids) -> Tensor:
    return torch.from_numpy(row.astype(np.int64))
