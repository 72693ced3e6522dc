"""Masked language modelling (Devlin et al. 2019): guess what stands behind each [MASK].

Shapes: B texts, T tokens, D model width, M masked tokens, V vocabulary.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.data.packing import length_batches
from jumok.data.splits import TEXTS, Splits
from jumok.data.table import Table
from jumok.errors import InputError
from jumok.evaluation.examples import Example
from jumok.models import MaskedLanguageModel
from jumok.nn.fused_linear_cross_entropy import fused_linear_cross_entropy
from jumok.nn.losses import cross_entropy
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.seeding import derive_seed, permutation
from jumok.tasks.inputs.batches import (
    EVAL_BATCH_TOKENS,
    LazyBatches,
    PaddedBatch,
    batches_by_length,
    collate,
)
from jumok.tasks.inputs.masking import (
    SPACE_MARKER,
    MaskedRows,
    PieceInfo,
    has_space_pieces,
    mask_tokens,
    piece_text,
    starts_word_after,
)
from jumok.tasks.inputs.text_encoder import TextEncoder
from jumok.tasks.jobs.subword_sampling import SubwordSampling, sample_some
from jumok.tasks.pipeline.distributed_map import JSON_CODEC, distributed_map
from jumok.tasks.pipeline.outputs import EvaluationResult, GeneratedText
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import MaskingConfig, ModelConfig
from jumok.text.pretrained import PretrainedTokenizer
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer
from jumok.training.job import DevResult

if TYPE_CHECKING:
    from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
    from jumok.tasks.pipeline.pipeline import Pipeline

MASK = "[MASK]"  # what a person types where a piece is to be filled in
MAX_EXAMPLES = 30  # texts in a report
REPLACEMENT_CHARACTER = "\N{REPLACEMENT CHARACTER}"  # what some bytes of a letter are shown as


@dataclass(frozen=True)
class MaskedBatch:
    """Texts of like length with blanks: where these are in the (B * T) tokens, and the truth."""

    texts: PaddedBatch
    positions: Tensor  # (M,) int64
    labels: Tensor  # (M,) int64

    @property
    def tokens(self) -> int:
        """Real tokens."""
        return self.texts.n_tokens

    @property
    def n_targets(self) -> int:
        """Masked tokens."""
        return len(self.labels)

    @classmethod
    def of(
        cls, masked: MaskedRows, examples: NDArray[np.int64], pad_id: int, device: torch.device
    ) -> "MaskedBatch":
        """The named rows as one rectangle."""
        rows, offsets = masked.rows, masked.rows.offsets
        texts = collate([rows[i] for i in examples], pad_id, device)
        tokens = np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in examples])
        chosen = masked.mask[tokens]
        places = np.flatnonzero(chosen)
        if texts.attention_mask is not None:
            places = np.flatnonzero(texts.attention_mask.cpu().numpy())[places]
        wanted = masked.labels[tokens[chosen]].astype(np.int64)
        return cls(texts, torch.from_numpy(places).to(device), torch.from_numpy(wanted).to(device))


@dataclass(frozen=True)
class MaskedScores:
    """How well the masked tokens were guessed."""

    tokens: int  # that were masked
    loss: float  # mean -log p of the truth
    accuracy: float  # 0 to 1

    @property
    def perplexity(self) -> float:
        """exp(loss)."""
        return math.exp(min(self.loss, 700.0))  # where floats end


class MaskedLMJob:
    """What a trainer needs to train a masked language model by a recipe."""

    def __init__(
        self,
        recipe: Recipe,
        model: nn.Module,
        vocabulary: Tokenizer,
        train: Sequence[str],
        dev: Sequence[str],
        device: torch.device,
    ) -> None:
        self.recipe, self.model, self.vocabulary = recipe, model, vocabulary
        self.train, self.device = train, device
        self.encode = TextEncoder(vocabulary, recipe.model.max_length)
        self.pieces = PieceInfo.of(vocabulary)
        self.dev = fixed_masking(self.encode(dev), self.pieces, recipe.masking)

    def epoch(self, number: int) -> LazyBatches[MaskedBatch]:
        """Batches of like length, in the order and with the blanks of this epoch."""
        seed = self.recipe.seed
        rng = np.random.Generator(np.random.Philox(derive_seed(seed, "masking", number)))
        masked = mask_tokens(self._rows(number), self.pieces, self.recipe.masking, rng)
        order = permutation(len(masked.rows), seed, number)
        rng = np.random.Generator(np.random.Philox(derive_seed(seed, "batches", number)))
        plan = length_batches(masked.rows.lengths, order, self.recipe.training.batch_tokens, rng)
        pad_id = self.vocabulary.padding_id
        return LazyBatches(plan, lambda rows: MaskedBatch.of(masked, rows, pad_id, self.device))

    def loss(self, batch: MaskedBatch) -> Tensor:
        """Cross-entropy of what was masked, summed."""
        hidden, output = masked_hidden(self.model, batch)
        smoothing = self.recipe.training.label_smoothing
        return fused_linear_cross_entropy(hidden, output, batch.labels, label_smoothing=smoothing)

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """Perplexity of the development texts, masked the same way every time."""
        scores, _ = score_masked(self.model, self.dev, self.vocabulary, self.device, processes)
        return DevResult(scores.loss, scores.perplexity, "perplexity")

    def _rows(self, number: int) -> Ragged:
        """The ids of the training texts as an epoch cuts them."""
        augmentation = self.recipe.augmentation
        if not augmentation.subword_sampling:
            return self.encode(self.train)
        cut = SubwordSampling(
            augmentation.subword_sampling,
            augmentation.sampling_alpha,
            derive_seed(self.recipe.seed, "sampling", number),
        )
        return self.encode.add_special_tokens(sample_some(self.train, self.vocabulary, cut))


class MaskedLMTask:
    """The task: texts, parts of them hidden, to be guessed from the rest."""

    def columns(self, recipe: Recipe) -> tuple[str, ...]:
        """Texts."""
        return TEXTS

    def vocabulary_texts(self, recipe: Recipe, train: Table) -> Iterator[str]:
        """The training texts."""
        yield from train.column("text")

    def build_model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """An encoder and a map to the vocabulary."""
        return MaskedLanguageModel(config)

    def build_job(
        self,
        recipe: Recipe,
        model: nn.Module,
        vocabularies: "TokenizerPair",
        splits: Splits,
        device: torch.device,
    ) -> MaskedLMJob:
        """What a trainer needs."""
        train, dev = (table.column("text") for table in (splits.train, splits.dev))
        return MaskedLMJob(recipe, model, vocabularies.source, train, dev, device)

    def evaluate(self, loaded: "Pipeline", table: Table, split: str) -> EvaluationResult:
        """Loss, perplexity and accuracy of what was masked, always in the same places."""
        recipe, vocabulary = loaded.recipe, loaded.vocabulary
        texts = table.column("text")
        rows = TextEncoder(vocabulary, recipe.model.max_length)(texts)
        masked = fixed_masking(rows, PieceInfo.of(vocabulary), recipe.masking)
        found, guesses = score_masked(
            loaded.model, masked, vocabulary, loaded.device, loaded.processes
        )
        return EvaluationResult(
            {
                "task": recipe.task,
                "split": split,
                "n": len(texts),
                "masked_tokens": found.tokens,
                "loss": found.loss,
                "perplexity": found.perplexity,
                "accuracy": found.accuracy,
            },
            examples=_examples(masked, guesses, vocabulary),
        )

    @torch.inference_mode()
    def predict(self, loaded: "Pipeline", texts: Sequence[str]) -> list[GeneratedText]:
        """Every [MASK] typed in a text filled with the likeliest piece that fits its spaces.

        After a space a piece that begins a word is chosen, elsewhere one that goes on; several
        blanks of a text are filled apart from one another. The score sums their log p.
        """
        vocabulary, device = loaded.vocabulary, loaded.device
        pieces = PieceInfo.of(vocabulary)
        encode = TextEncoder(vocabulary, loaded.recipe.model.max_length)
        blanked = [text.split(MASK) for text in texts]
        rows = encode_with_masks(texts, encode)
        filled: list[GeneratedText | None] = [None] * len(texts)
        for batch in batches_by_length(rows, EVAL_BATCH_TOKENS):
            ids = collate([rows[i] for i in batch], vocabulary.padding_id, device)
            logits = loaded.model(ids.input_ids, ids.attention_mask)
            for i, row, found in zip(batch, ids.input_ids, logits, strict=True):
                here = found[row == vocabulary.mask_id].log_softmax(-1)  # (blanks, V)
                output, score = _fill_masks(blanked[i], here.cpu().numpy(), pieces, vocabulary)
                filled[i] = GeneratedText(texts[i], output, score)
        return [answer for answer in filled if answer is not None]


def fixed_masking(rows: Ragged, pieces: PieceInfo, masking: MaskingConfig) -> MaskedRows:
    """The rows masked the same way in every run, whatever its seed: so that scores compare."""
    return mask_tokens(rows, pieces, masking, np.random.Generator(np.random.Philox(0)))


def masked_hidden(model: nn.Module, batch: MaskedBatch) -> tuple[Tensor, nn.Linear]:
    """What the model thinks of the masked tokens alone, (M, D), and the map to the vocabulary."""
    assert isinstance(model, MaskedLanguageModel)
    hidden = model.hidden_states(batch.texts.input_ids, batch.texts.attention_mask)  # (B, T, D)
    chosen = hidden.flatten(0, 1).index_select(0, batch.positions)  # (M, D)
    return model.transform(chosen), model.output


@torch.inference_mode()
def score_masked(
    model: nn.Module,
    masked: MaskedRows,
    vocabulary: Tokenizer,
    device: torch.device,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> tuple[MaskedScores, NDArray[np.int64]]:
    """Scores of all that is masked, and the likeliest pieces, in the order of the tokens."""

    def guess(rows: NDArray[np.int64]) -> tuple[float, list[int]]:
        batch = MaskedBatch.of(masked, rows, vocabulary.padding_id, device)
        hidden, output = masked_hidden(model, batch)
        logits = output(hidden)  # (M, V)
        return cross_entropy(logits, batch.labels).item(), logits.argmax(-1).tolist()

    loss = 0.0
    guesses = np.empty(int(masked.mask.sum()), dtype=np.int64)
    ends = np.cumsum(masked.mask)  # how many are chosen up to each token
    plan = batches_by_length(masked.rows, EVAL_BATCH_TOKENS)
    for rows, (nats, best) in zip(
        plan, distributed_map(plan, guess, processes, JSON_CODEC), strict=True
    ):
        loss += nats
        start = 0
        for i in rows:
            begin, end = masked.rows.offsets[i : i + 2]
            n = int(masked.mask[begin:end].sum())
            if n:
                guesses[ends[end - 1] - n : ends[end - 1]] = best[start : start + n]
            start += n
    n = max(len(guesses), 1)
    right = int((guesses == masked.labels[masked.mask]).sum())
    return MaskedScores(len(guesses), loss / n, right / n), guesses


def encode_with_masks(texts: Sequence[str], encode: TextEncoder) -> Ragged:
    """The ids of texts in which somebody typed [MASK], as a model reads them.

    A space before a blank belongs to the piece that is to fill it; so does one behind it, unless
    an imported tokeniser makes it a part of the next piece. Where spaces are pieces they stay.
    """
    vocabulary = encode.tokenizer
    imported = isinstance(vocabulary, PretrainedTokenizer)
    apart = has_space_pieces(vocabulary)
    rows = []
    for text in texts:
        parts = text.split(MASK)
        ids: list[int] = []
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            bare = part if last or apart else part.rstrip(" ")
            if number:
                ids.append(vocabulary.mask_id)
                bare = bare if imported or apart else bare.lstrip(" ")
            own = vocabulary.encode(bare) if bare else []
            attached = number > 0 and not part.startswith(" ")
            ids += _without_space(own, vocabulary) if attached else own
        rows.append(ids)
    return encode.add_special_tokens(Ragged.from_lists(rows))


def _fill_masks(
    parts: Sequence[str], logs: NDArray[np.float32], pieces: PieceInfo, vocabulary: Tokenizer
) -> tuple[str, float]:
    """The parts of a text with the likeliest pieces between them: logs (blanks read, V) of log p.

    A blank that the model had no room to read stays.
    """
    output, score = parts[0], 0.0
    unread = len(parts) - 1 - len(logs) if vocabulary.truncation_side == "left" else 0
    for number, (before, after) in enumerate(pairwise(parts), -unread):
        piece = MASK
        if 0 <= number < len(logs):
            adjoins = not before and number > -unread  # another blank
            begins = not adjoins and starts_word_after(before, vocabulary)
            begins &= not has_space_pieces(vocabulary)
            fitting = pieces.starts_word if begins else pieces.maskable & ~pieces.starts_word
            piece, log = _best_piece(logs[number], fitting, vocabulary)
            score += log
        output += piece + after
    return output, score


def _best_piece(
    log: NDArray[np.float32], fitting: NDArray[np.bool_], vocabulary: Tokenizer
) -> tuple[str, float]:
    """The likeliest of the fitting pieces that write something, and its log p.

    White space alone is nothing, nor are some bytes of a letter.
    """
    places = np.flatnonzero(fitting)
    for best in places[np.argsort(-log[places], kind="stable")]:
        word = piece_text(vocabulary, int(best))
        if word.strip() and REPLACEMENT_CHARACTER not in word:
            return word, float(log[best])
    raise InputError(
        "the vocabulary has no piece that fits a blank here, inside a word or at the beginning of "
        "one; train one on more texts"
    )


def _without_space(ids: list[int], vocabulary: Tokenizer) -> list[int]:
    """The ids of a text that goes on where another ended, if the vocabulary has such a piece."""
    if not ids or isinstance(vocabulary, PretrainedTokenizer):
        return ids  # an imported tokeniser cuts what follows a blank by its own rules
    word = vocabulary.piece(ids[0]).removeprefix(SPACE_MARKER)
    if not word:
        return ids[1:]
    try:
        return [vocabulary.id(word), *ids[1:]]
    except InputError:
        return ids


def _examples(
    masked: MaskedRows, guesses: NDArray[np.int64], vocabulary: Tokenizer
) -> list[Example]:
    """The first texts as they were read, as they were, and as the model would have them."""
    n = int(masked.rows.offsets[min(MAX_EXAMPLES, len(masked.rows))])
    chosen = masked.mask[:n]
    filled = masked.labels[:n].copy()
    filled[chosen] = guesses[: int(chosen.sum())]
    found = []
    for begin, end in zip(masked.rows.offsets[:-1], masked.rows.offsets[1:], strict=True):
        if end > n:
            break
        rows = (masked.rows.ids[begin:end], masked.labels[begin:end], filled[begin:end])
        found.append(Example(*(_spelled(row, vocabulary) for row in rows)))
    return found


def _spelled(ids: NDArray[np.int32], vocabulary: Tokenizer) -> str:
    """The text of ids, [MASK] shown where it stands."""
    if isinstance(vocabulary, PretrainedTokenizer):
        return vocabulary.decode([int(i) for i in ids], keep_special=True)
    shown = [vocabulary.piece(int(i)) for i in ids if i != vocabulary.cls_id]
    return "".join(shown).replace(SPACE_MARKER, " ").strip()
