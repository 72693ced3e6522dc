"""Speculative decoding: tokens a second, and how many of a small draft's guesses are kept.

    python benchmarks/speculative.py --out RUNS [--steps 1500] [--sentences 100] [--rounds 5]

Two models learn the `numbers` corpus: a target with 6 decoder layers (d=256) and a draft with one
(d=128); runs that are in RUNS already are taken as they are. Then both write sentences they never
saw, one at a time. All ways take turns, and reading the sources, the draft's too, is part of the
time.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from trained_runs import results_of
from turns import heading, speed_lines

import jumok
from jumok.data.numbers import generate as sentences
from jumok.decoding import (
    DecodingConfig,
    GenerationInputs,
    Seq2SeqDecoder,
    StoppingCriteria,
    generate,
)
from jumok.decoding.hypothesis import Hypothesis
from jumok.decoding.sampling import text_key
from jumok.decoding.speculative import speculative
from jumok.models import EncoderDecoder

RESULTS = Path(__file__).parent / "results" / "speculative.txt"
AHEAD = (2, 4, 6, 8)
LONGEST = 64  # tokens written
MEASURES = {
    "target": ("model.n_layers=2", "model.n_decoder_layers=6", "model.d_model=256",
               "model.d_ff=1024", "training.learning_rate=1e-3"),
    "draft": ("model.n_layers=1", "model.n_decoder_layers=1", "model.d_model=128",
              "model.d_ff=512"),
}  # fmt: skip


@dataclass(frozen=True)
class Way:
    """How to write: greedy or drawn, plainly or with so many guesses ahead."""

    sample: bool
    ahead: int = 0  # 0: the target alone

    def __str__(self) -> str:
        guesses = f"{self.ahead} guesses ahead" if self.ahead else "the target alone"
        return f"{'sampled' if self.sample else 'greedy'}, {guesses}"


@dataclass(frozen=True)
class Turn:
    """What came of writing every sentence once."""

    answers: list[Hypothesis]
    speed: float  # tokens a second
    kept: float  # the share of guesses
    passes: float  # of the target, a token


WAYS = [Way(sample, ahead) for sample in (False, True) for ahead in (0, *AHEAD)]


def main() -> None:
    """Train what is missing, measure, keep the table."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("--out", type=Path, required=True)
    words.add_argument("--steps", type=int, default=1500)
    words.add_argument("--sentences", type=int, default=100)
    words.add_argument("--rounds", type=int, default=5)
    given = words.parse_args()
    steps = {train(name, given.out / name, given.steps) for name in MEASURES}
    pair = Pair(given.out)
    sources = [pair.read(spoken) for spoken, _ in sentences("test", given.sentences, seed=7)]
    rounds = [{way: pair.write(sources, way) for way in WAYS} for _ in range(given.rounds + 1)][1:]
    said = f"--steps {'/'.join(map(str, steps))} --sentences {given.sentences}"
    text = table(rounds, f"python benchmarks/speculative.py {said} --rounds {given.rounds}")
    print(text)
    RESULTS.write_text(text + "\n", encoding="utf-8")


def train(name: str, folder: Path, steps: int) -> int:
    """A run with the measures of that name, if it is not there yet; the steps that it learnt."""
    changes = [*MEASURES[name], f"training.steps={steps}", f"training.evaluate_every={steps}"]
    return int(results_of(folder, ["numbers", *changes])["steps"])


class Pair:
    """A target and its draft, which learnt the same vocabulary."""

    def __init__(self, folder: Path) -> None:
        target, draft = (jumok.load(folder / name, device="cpu") for name in MEASURES)
        assert target.vocabulary.fingerprint == draft.vocabulary.fingerprint
        assert isinstance(target.model, EncoderDecoder)
        assert isinstance(draft.model, EncoderDecoder)
        self.target, self.draft = target.model, draft.model
        self.vocabulary = target.vocabulary

    def read(self, text: str) -> Tensor:
        """A source (1, S)."""
        return torch.tensor([[*self.vocabulary.encode(text), self.vocabulary.eos_id]])

    def write(self, sources: Sequence[Tensor], way: Way) -> Turn:
        """Every sentence once, one at a time."""
        config = DecodingConfig(sample=way.sample, max_length=LONGEST)
        answers, kept, guessed, passes = [], 0, 0, 0
        begin = time.perf_counter()
        for source in sources:
            first = torch.tensor([[self.vocabulary.bos_id]])
            stopping = StoppingCriteria(self.vocabulary.eos_id, [LONGEST])
            opening = GenerationInputs(first, stopping, [text_key(source[0].tolist())])
            target = Seq2SeqDecoder(self.target, source, capacity=LONGEST)
            if way.ahead:
                draft = Seq2SeqDecoder(self.draft, source, capacity=LONGEST)
                found = speculative(target, draft, opening, config, n_draft_tokens=way.ahead)
                answers.append(found.hypothesis)
                kept, guessed = kept + found.accepted, guessed + found.proposed
                passes += found.target_passes
            else:
                [[answer]] = generate(target, opening, config)
                answers.append(answer)
                passes += len(answer.log_probabilities)
        seconds = time.perf_counter() - begin
        tokens = sum(len(answer.log_probabilities) for answer in answers)
        return Turn(answers, tokens / seconds, kept / max(guessed, 1), passes / tokens)


def table(rounds: Sequence[dict[Way, Turn]], command: str) -> str:
    """Speeds, shares, and whether greedy stayed the same."""
    speeds = {str(way): [turn[way].speed for turn in rounds] for way in WAYS}
    lines = [heading(command), *speed_lines(speeds, "tokens/s, one sentence at a time"), ""]
    lines.append(f"{'':<32} {'guesses kept':>13} {'target passes a token':>22} {'speed':>7}")
    last = rounds[-1]
    for way in WAYS:
        plain = statistics.median(speeds[str(Way(way.sample))])
        gain = statistics.median(speeds[str(way)]) / plain
        share = f"{last[way].kept:.1%}" if way.ahead else ""
        lines.append(f"{way!s:<32} {share:>13} {last[way].passes:22.2f} {gain:6.2f}x")
    greedy = [answer.ids for answer in last[Way(False)].answers]
    same = {
        way: [answer.ids for answer in last[way].answers] == greedy
        for way in WAYS
        if way.ahead and not way.sample
    }
    lines += [
        "",
        f"{len(greedy)} sentences; greedy output the same as without: {all(same.values())}",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
