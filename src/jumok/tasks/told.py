"""What is told of a text that was written: its tokens, and what each of them looked at."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from jumok.decoding.alignment import align
from jumok.decoding.hypothesis import Hypothesis
from jumok.errors import InputError
from jumok.models import EncoderDecoder
from jumok.tasks.inputs.seq2seq_encoder import Seq2SeqEncoder
from jumok.tasks.inputs.special_tokens import decoder_start_id
from jumok.tasks.pipeline.generation import Generated
from jumok.tasks.pipeline.outputs import Candidate, GeneratedText, GeneratedToken
from jumok.text.tokenizer import Tokenizer, piece_or_empty

if TYPE_CHECKING:
    from jumok.tasks.pipeline.pipeline import Pipeline

DECIMALS = 6  # of a weight


@dataclass(frozen=True)
class AlignedOutput:
    """The pieces of a source as they were read, and for each written token its weights on them."""

    source: tuple[str, ...]  # (S)
    alignment: tuple[tuple[float, ...], ...]  # (T, S); each row sums to 1


def to_generated_text(loaded: "Pipeline", text: str, outputs: Sequence[Generated]) -> GeneratedText:
    """The answer to a text, made of all outputs that were written for it."""
    candidates = tuple(
        Candidate(each.text, each.hypothesis.score, each.hypothesis.rank) for each in outputs
    )
    best = outputs[0].hypothesis
    return GeneratedText(
        text,
        outputs[0].text,
        best.score,
        n_best=candidates if loaded.recipe.decoding.n_best > 1 else None,
        loop=None if best.loop is None else str(best.loop),
        tokens=_tokens(loaded.target_vocabulary, best),
    )


def _tokens(vocabulary: Tokenizer, written: Hypothesis) -> tuple[GeneratedToken, ...]:
    """The tokens of what was written, the [EOS] that ended it among them."""
    ids, log_p = written.ids, written.log_probabilities
    if len(log_p) > len(ids):
        ids = [*ids, vocabulary.eos_id]
    return tuple(
        GeneratedToken(piece_or_empty(vocabulary, id_), id_, log)
        for id_, log in zip(ids, log_p, strict=True)
    )


def align_output(loaded: "Pipeline", answer: GeneratedText) -> AlignedOutput:
    """What each token of the best output looked at: cross-attention, the mean of layers and heads.

    By one more pass over the finished output, of the run itself where others write along. Raises
    InputError for a model without a source to look at.
    """
    if not isinstance(loaded.model, EncoderDecoder):
        raise InputError(
            f"a run of the task {loaded.recipe.task} has no source that it looks at while it "
            "writes; ask one of sequence_to_sequence for alignments"
        )
    reading, writing = loaded.vocabulary, loaded.target_vocabulary
    encode = Seq2SeqEncoder(reading, writing, loaded.recipe.model.max_length)
    source = encode.sources([answer.text])[0]
    (found,) = align(
        loaded.model,
        torch.tensor([source.tolist()], device=loaded.device),
        None,
        [[token.id for token in answer.tokens]],
        bos_id=decoder_start_id(writing),
    )
    rows = ((round(weight, DECIMALS) for weight in row) for row in found.weights.tolist())
    return AlignedOutput(
        tuple(piece_or_empty(reading, id_) for id_ in source), tuple(tuple(row) for row in rows)
    )
