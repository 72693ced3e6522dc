"""The cost of lower precision: losses and outputs of a trained run in each precision.

    python benchmarks/decoding_quality.py RUN [--pairs 1000] [--beam 4]

On the development pairs of a sequence-to-sequence run: the mean loss of a reference's token
(teacher forcing), BLEU and chrF of the outputs, and the fraction of outputs that equal those of the
float32 model. Nothing is selected by these figures.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from turns import heading

import jumok
from jumok.data.load import load_splits
from jumok.data.splits import SEQUENCES
from jumok.decoding.build import build_stopping_and_processors
from jumok.decoding.generate import generate
from jumok.decoding.incremental.decoder import IncrementalDecoder, Seq2SeqDecoder
from jumok.decoding.inputs import GenerationInputs
from jumok.evaluation.sequences import sequence_metrics
from jumok.models import EncoderDecoder
from jumok.native import NativeDecoder, NativeModel, quantize_int8, to_bfloat16
from jumok.tasks.inputs.seq2seq_encoder import Seq2SeqBatch, Seq2SeqEncoder
from jumok.tasks.pipeline.generation import effective_config
from jumok.tasks.pipeline.pipeline import Pipeline

RESULTS = Path(__file__).parent / "results" / "decoding_quality.txt"
ROWS = 32

Begin = Callable[
    [Tensor, Tensor | None, int], IncrementalDecoder
]  # source ids, source mask, capacity


@dataclass(frozen=True)
class Quality:
    """The quality of one precision."""

    loss: float  # of a target token
    outputs: list[str]


def ways(model: EncoderDecoder) -> Iterator[tuple[str, Begin]]:
    """Every precision, the torch float32 model first."""

    def plain(kind: EncoderDecoder) -> Begin:
        return lambda source, real, room: Seq2SeqDecoder(kind, source, real, capacity=room)

    def native(kind: NativeModel) -> Begin:
        return lambda source, real, room: NativeDecoder(kind, source, real, capacity=room)

    yield "plain fp32", plain(model)
    for name, change in (("plain bf16", to_bfloat16), ("plain int8", quantize_int8)):
        changed = change(model)
        assert isinstance(changed, EncoderDecoder)
        yield name, plain(changed)
    yield "native fp32", native(NativeModel(model, "float32"))
    yield "native bf16", native(NativeModel(model, "bfloat16"))
    yield "native int8", native(NativeModel(model, "int8"))


def quality(begin: Begin, batches: list[Seq2SeqBatch], loaded: Pipeline, beam: int) -> Quality:
    """The loss and the outputs of every batch."""
    total, units = 0.0, 0
    outputs: list[str] = []
    for batch in batches:
        source, target = batch.source, batch.target
        logits = begin(source.input_ids, source.attention_mask, target.input_ids.shape[1]).step_all(
            target.input_ids
        )  # (B, T, V)
        log_p = logits.log_softmax(-1).gather(-1, batch.labels[..., None])[..., 0]  # (B, T)
        total -= float(
            log_p.sum() if target.attention_mask is None else log_p[target.attention_mask].sum()
        )
        units += batch.n_targets
        outputs += written(begin, batch, loaded, beam)
    return Quality(total / units, outputs)


def written(begin: Begin, batch: Seq2SeqBatch, loaded: Pipeline, beam: int) -> list[str]:
    """The output for each source."""
    assert isinstance(loaded.model, EncoderDecoder)
    vocabulary, source, real = (
        loaded.target_vocabulary,
        batch.source.input_ids,
        batch.source.attention_mask,
    )
    expected = replace(loaded.recipe.decoding, beam=beam, n_best=1, sample=False)
    config = effective_config(expected, loaded.model)
    lengths = [source.shape[1]] * len(source) if real is None else real.sum(-1).tolist()
    limits = [config.limit(length) for length in lengths]
    first = torch.full((len(source), 1), vocabulary.bos_id)
    end_id = vocabulary.eos_id
    stopping, processors = build_stopping_and_processors(config, end_id, limits, vocabulary)
    opening = GenerationInputs(first, stopping)
    answers = generate(begin(source, real, opening.max_new_tokens), opening, config, processors)
    return vocabulary.decode_batch([answer[0].ids for answer in answers])


def main() -> None:
    """Print the table and write it to the results."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("run", type=Path)
    arguments.add_argument("--pairs", type=int, default=1000)
    arguments.add_argument("--beam", type=int, default=4)
    given = arguments.parse_args()
    torch.set_num_threads(2)
    loaded = jumok.load(given.run)
    assert isinstance(loaded.model, EncoderDecoder)
    dev = load_splits(loaded.recipe.data, SEQUENCES, only=["dev"]).dev
    pairs = sorted(
        zip(dev.column("source")[: given.pairs], dev.column("target")[: given.pairs], strict=True),
        key=lambda pair: len(pair[0]),
    )
    encode = Seq2SeqEncoder(
        loaded.vocabulary, loaded.target_vocabulary, loaded.recipe.model.max_length
    )
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    ids = encode.sources(sources), encode.targets(targets)
    batches = [
        encode.batch([ids[0]], ids[1], part.numpy(), torch.device("cpu"))
        for part in torch.split(torch.arange(len(pairs)), ROWS)
    ]
    lines = [f"{'':<14} {'loss':>8} {'BLEU':>7} {'chrF':>7} {'exact':>7} {'as plain':>9}"]
    plain: Quality | None = None
    for name, begin in ways(loaded.model):
        found = quality(begin, batches, loaded, given.beam)
        plain = plain or found
        scores = sequence_metrics(found.outputs, targets)
        same = sum(a == b for a, b in zip(found.outputs, plain.outputs, strict=True)) / len(pairs)
        lines.append(
            f"{name:<14} {found.loss:8.4f} {scores.bleu:7.2f} {scores.chrf:7.2f} "
            f"{scores.exact_match:7.3f} {same:9.1%}"
        )
        print(lines[-1], flush=True)
    command = (
        f"python benchmarks/decoding_quality.py {given.run.name} "
        f"--pairs {given.pairs} --beam {given.beam}"
    )
    text = "\n".join([heading(command), *lines])
    RESULTS.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
