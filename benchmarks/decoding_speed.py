"""Decoding speed against transformers and CTranslate2: the same weights, a forced output length.

    python benchmarks/decoding_speed.py [--rounds 7] [--only b32] [--cap avx2]

An encoder-decoder of the base size (6+6 layers, d 512, 8 heads, d_ff 2048, post-norm, sinusoidal
positions, tied embeddings; 8,000 and 32,000 tokens) and a GPT-2 of the small size, with random
weights from a fixed seed: initialized by transformers, opened by jumok as any checkpoint and
converted to CTranslate2 by `jumok.export`. No row ends early: each has exactly 32 tokens.
Sources are 10 to 38 tokens long (24 in the mean), prompts 16.

Each system is a process of its own with two threads, and they take turns. Output tokens a second
are those of the best hypothesis of each row. Peak memory is the process's high-water mark; weights
are the size on disk, for jumok the size in memory. transformers runs in float32; its bfloat16 is
not measured. `equal` is the fraction of tokens that equal those of transformers in float32 (with
random weights the best two logits are often close; with trained weights far more tokens agree).
`--cap` limits the instruction sets of all systems alike.
"""

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from turns import answer, command_line, heading, save_tables, set_cap, speed_parser, take_turns

RESULTS = Path(__file__).parent / "results"
OUTPUT, PROMPT, LONGEST = 32, 16, 512
LENGTHS = range(10, 39)  # of sources
PAD, END, FIRST_WORD = 0, 1, 3
NO_END = -1  # an EOS id that never occurs

Ids = list[list[int]]
Turn = Callable[[], Ids]  # decodes every batch of one round


@dataclass(frozen=True)
class Case:
    """One input of the comparison."""

    name: str
    model: Literal["base", "gpt2"]
    vocabulary: int
    batch: int
    beam: int = 1
    batches: int = 1  # per round
    faster_than_transformers: float | None = None  # the goals
    faster_than_ctranslate2: float | None = None

    @property
    def folder(self) -> str:
        """The folder of the converted weights."""
        return f"{self.model}-{self.vocabulary}"

    def inputs(self) -> list[Ids]:
        """The batches of a round: sources, or prompts."""
        chance = torch.Generator().manual_seed(1)

        def row() -> list[int]:
            n = PROMPT
            if self.model == "base":
                n = LENGTHS[int(torch.randint(len(LENGTHS), (), generator=chance))]
            return torch.randint(FIRST_WORD, self.vocabulary, (n,), generator=chance).tolist()

        return [[row() for _ in range(self.batch)] for _ in range(self.batches)]


CASES = (
    Case("base V8000 b1 greedy", "base", 8000, 1, 1, 8, 5.0, 1.7),
    Case("base V8000 b32 greedy", "base", 8000, 32, 1, 1, 4.0, 1.3),
    Case("base V8000 b32 beam4", "base", 8000, 32, 4, 1, 3.0, 1.0),
    Case("base V8000 b1 beam4", "base", 8000, 1, 4, 8),
    Case("base V32000 b1 greedy", "base", 32000, 1, 1, 8),
    Case("base V32000 b32 greedy", "base", 32000, 32),
    Case("base V32000 b32 beam4", "base", 32000, 32, 4),
    Case("base V32000 b1 beam4", "base", 32000, 1, 4, 8),
    Case("gpt2 b1 greedy", "gpt2", 50257, 1, 1, 2),
    Case("gpt2 b8 greedy", "gpt2", 50257, 8),
)


# --- the same weights for every system ------------------------------------------------------------


def theirs(case: Case) -> nn.Module:
    """transformers' model with random weights from a fixed seed."""
    from transformers import GPT2Config, GPT2LMHeadModel, MarianConfig, MarianMTModel

    torch.manual_seed(0)
    if case.model == "gpt2":
        return shaken(GPT2LMHeadModel(GPT2Config(vocab_size=case.vocabulary)))
    config = MarianConfig(
        vocab_size=case.vocabulary,
        d_model=512,
        encoder_layers=6,
        decoder_layers=6,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=2048,
        decoder_ffn_dim=2048,
        activation_function="relu",
        max_position_embeddings=LONGEST,
        scale_embedding=True,
        dropout=0.0,
        init_std=0.05,
        pad_token_id=PAD,
        eos_token_id=END,
        forced_eos_token_id=None,
        decoder_start_token_id=PAD,
    )
    return shaken(MarianMTModel(config))


def eval_mode(model: nn.Module) -> nn.Module:
    """The model in eval mode."""
    return model.eval()


def shaken(model: nn.Module) -> nn.Module:
    """The model with random biases: CTranslate2 stores equal vectors only once."""
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 1:
                weight.add_(0.02 * torch.randn_like(weight))
    return eval_mode(model)


def ours(folder: Path) -> nn.Module:
    """jumok's model with the weights that `prepare` saved, mapped from the file."""
    from jumok.pretrained.checkpoint import open_checkpoint
    from jumok.pretrained.state_dict import model_from_hf

    checkpoint = open_checkpoint(folder / "transformers")
    return model_from_hf(checkpoint.config, checkpoint.tensors).model.eval()


def prepare(case: Case, folder: Path) -> None:
    """Save the weights of a case in the format of each system."""
    from jumok.formats.ctranslate2_model import ComputeType, convert
    from jumok.formats.ctranslate2_spec import SpecVocabulary
    from jumok.models import EncoderDecoder, LanguageModel

    theirs(case).save_pretrained(folder / "transformers")  # type: ignore[operator]
    plain = ours(folder)
    assert isinstance(plain, EncoderDecoder | LanguageModel)
    pieces = [f"w{i}" for i in range(case.vocabulary)]
    pieces[PAD], pieces[END] = "<pad>", "</s>"
    begin = pieces[END if case.model == "gpt2" else PAD]
    words = SpecVocabulary(pieces, pieces, begin, pieces[END], pieces[2], adds_eos=False)
    precisions: tuple[ComputeType, ...] = ("float32", "int8")
    for precision in precisions:
        to = folder / f"ctranslate2-{precision}"
        to.mkdir()
        convert(plain, words, to, precision)
    os.sync()  # dirty pages cannot be released


# --- the systems ----------------------------------------------------------------------------------


def transformers_generate(case: Case, folder: Path, cache: str) -> tuple[Turn, int]:
    """transformers' `generate` in float32, with one of its caches."""
    from transformers import GPT2LMHeadModel, MarianMTModel
    from transformers.utils import logging

    logging.set_verbosity_error()  # type: ignore[no-untyped-call, unused-ignore]
    kind = GPT2LMHeadModel if case.model == "gpt2" else MarianMTModel
    model: Any = eval_mode(kind.from_pretrained(folder / "transformers"))
    batches = [padded(batch) for batch in case.inputs()]

    def turn() -> Ids:
        written: Ids = []
        for ids, real in batches:
            with torch.inference_mode():
                answers = model.generate(
                    input_ids=ids,
                    attention_mask=real.long(),
                    num_beams=case.beam,
                    do_sample=False,
                    min_new_tokens=OUTPUT,
                    max_new_tokens=OUTPUT,
                    pad_token_id=PAD,
                    eos_token_id=END,
                    cache_implementation=cache,
                )
            written += answers[:, -OUTPUT:].tolist()
        return written

    return turn, size_of(folder / "transformers")


def ctranslate2(case: Case, folder: Path, precision: str) -> tuple[Turn, int]:
    """CTranslate2, in float32 or int8."""
    from ctranslate2 import Generator, Translator

    kind = Generator if case.model == "gpt2" else Translator
    path = folder / f"ctranslate2-{precision}"
    system = kind(str(path), device="cpu", intra_threads=2, inter_threads=1)
    batches = [[[f"w{i}" for i in row] for row in batch] for batch in case.inputs()]
    number = {f"w{i}": i for i in range(case.vocabulary)} | {"<pad>": PAD, "</s>": END}

    def turn() -> Ids:
        written: Ids = []
        for batch in batches:
            if case.model == "gpt2":
                answers = system.generate_batch(
                    batch,
                    beam_size=case.beam,
                    min_length=OUTPUT,
                    max_length=OUTPUT,
                    include_prompt_in_result=False,
                )
                written += [answer.sequences_ids[0] for answer in answers]
            else:
                answers = system.translate_batch(
                    batch,
                    beam_size=case.beam,
                    min_decoding_length=OUTPUT,
                    max_decoding_length=OUTPUT,
                )
                written += [[number[word] for word in a.hypotheses[0]] for a in answers]
        return written

    return turn, size_of(path)


def jumok(case: Case, folder: Path, how: str) -> tuple[Turn, int]:
    """jumok's search with the torch model or the C++ kernel."""
    from jumok.decoding.config import DecodingConfig
    from jumok.decoding.generate import generate
    from jumok.decoding.incremental.decoder import (
        CausalLMDecoder,
        IncrementalDecoder,
        Seq2SeqDecoder,
    )
    from jumok.decoding.inputs import GenerationInputs
    from jumok.decoding.stopping import StoppingCriteria
    from jumok.models import EncoderDecoder
    from jumok.native import NativeDecoder, NativeModel, quantize_int8, to_bfloat16
    from jumok.pretrained.memory_map import release_pages

    plain = ours(folder)
    batches = [padded(batch) for batch in case.inputs()]
    config = DecodingConfig(beam=case.beam, max_length=OUTPUT)
    native = None
    match how:
        case "float32" | "bfloat16" | "int8":
            native = NativeModel(plain, how, on_packed=release_pages)
            del plain
        case "plain bf16":
            plain = to_bfloat16(plain)
        case "plain int8":
            plain = quantize_int8(plain)
    weight_bytes = held_by(plain) if native is None else native.weight_bytes

    def writer(ids: Tensor, real: Tensor) -> IncrementalDecoder:
        if case.model == "gpt2":
            room = PROMPT + OUTPUT
            if native is not None:
                return NativeDecoder(native, capacity=room)
            return CausalLMDecoder(plain, capacity=room)  # type: ignore[arg-type]
        if native is not None:
            return NativeDecoder(native, ids, real, capacity=OUTPUT + 1)
        assert isinstance(plain, EncoderDecoder)
        return Seq2SeqDecoder(plain, ids, real, capacity=OUTPUT + 1)

    def turn() -> Ids:
        written: Ids = []
        for ids, real in batches:
            first = ids if case.model == "gpt2" else torch.full((len(ids), 1), PAD)
            opening = GenerationInputs(first, StoppingCriteria(NO_END, [OUTPUT] * len(ids)))
            answers = generate(writer(ids, real), opening, config)
            written += [answer[0].ids for answer in answers]
        return written

    return turn, weight_bytes


@dataclass(frozen=True)
class System:
    """A library in one precision."""

    name: str
    make: Callable[[Case, Path, str], tuple[Turn, int]]
    how: str


SYSTEMS = (
    System("transformers fp32, dynamic cache", transformers_generate, "dynamic"),
    System("transformers fp32, static cache", transformers_generate, "static"),
    System("CTranslate2 fp32", ctranslate2, "float32"),
    System("CTranslate2 int8", ctranslate2, "int8"),
    System("jumok plain fp32", jumok, "plain fp32"),
    System("jumok plain bf16", jumok, "plain bf16"),
    System("jumok plain int8", jumok, "plain int8"),
    System("jumok native fp32", jumok, "float32"),
    System("jumok native bf16", jumok, "bfloat16"),
    System("jumok native int8", jumok, "int8"),
)


def padded(batch: Ids) -> tuple[Tensor, Tensor]:
    """Right-padded ids and their attention mask: 2 x (B, S)."""
    longest = max(map(len, batch))
    ids = torch.tensor([row + [PAD] * (longest - len(row)) for row in batch])
    return ids, torch.arange(longest) < torch.tensor([len(row) for row in batch])[:, None]


def size_of(path: Path) -> int:
    """The bytes of a file, or of the weights in a folder."""
    files = [path] if path.is_file() else [*path.glob("*.safetensors"), *path.glob("model.bin")]
    return sum(file.stat().st_size for file in files)


def held_by(model: nn.Module) -> int:
    """The bytes of a model's weights in memory."""
    kept = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    return sum(tensor.nbytes for tensor in kept.values())


def peak_memory() -> int:
    """The peak resident memory of this process in bytes (Linux)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


# --- rounds and tables ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Report:
    """The report of a worker."""

    peak: int
    weights: int
    written: Ids


def work(system: System, case: Case, folder: Path) -> None:
    """A worker: decode in rounds, then write the report."""
    turn, weights = system.make(case, folder / case.folder, system.how)
    written: Ids = []

    def timed() -> int:
        written[:] = turn()
        return sum(map(len, written))

    answer(timed)
    report = {"peak": peak_memory(), "weights": weights, "written": written}
    path = folder / f"report-{SYSTEMS.index(system)}.json"
    path.write_text(json.dumps(report), encoding="utf-8")


def measure(case: Case, chosen: Sequence[int], rounds: int, folder: Path) -> str:
    """The table of one case."""
    words = ["--case", case.name, "--folder", str(folder)]
    speeds = take_turns(__file__, chosen, rounds, words)
    reports = {
        number: Report(**json.loads((folder / f"report-{number}.json").read_text("utf-8")))
        for number in chosen
    }
    medians = {SYSTEMS[number].name: statistics.median(s) for number, s in speeds.items()}
    best = {
        name: max((m for system, m in medians.items() if system.startswith(name)), default=None)
        for name in ("transformers", "CTranslate2")
    }
    truth = reports[0].written if 0 in reports else None
    lines = [
        f"{case.name}: {case.batches} x {case.batch} rows of {OUTPUT} tokens a turn",
        f"{'system':<34} {'min':>7} {'median':>7} {'max':>7}  {'x HF':>6} {'x CT2':>6} "
        f"{'peak MB':>8} {'weights MB':>10} {'equal':>7}",
    ]
    for number in chosen:
        name, report, s = SYSTEMS[number].name, reports[number], speeds[number]
        ratios = "".join(f" {ratio(medians[name], other):>6}" for other in best.values())
        equal = "" if truth is None else f"{share_equal(report.written, truth):7.1%}"
        lines.append(
            f"{name:<34} {min(s):7,.0f} {medians[name]:7,.0f} {max(s):7,.0f} {ratios} "
            f"{report.peak / 1e6:8,.0f} {report.weights / 1e6:10,.1f} {equal}"
        )
    ours = [m for name, m in medians.items() if name.startswith("jumok")]
    for name, wanted in (
        ("transformers", case.faster_than_transformers),
        ("CTranslate2", case.faster_than_ctranslate2),
    ):
        other = best[name]
        if wanted is not None and other is not None and ours:
            reached = max(ours) / other
            verdict = "reached" if reached >= wanted else "NOT REACHED"
            lines.append(f"{reached:.2f} x the best of {name}, wanted {wanted}: {verdict}")
    named = {SYSTEMS[number].name: report for number, report in reports.items()}
    int8, theirs = named.get("jumok native int8"), named.get("CTranslate2 int8")
    if int8 is not None and theirs is not None:
        lines.append(compared("weights", int8.weights, "CTranslate2's in int8", theirs.weights))
    peaks = [report.peak for name, report in named.items() if name.startswith("transformers")]
    if int8 is not None and peaks:
        lines.append(compared("peak", int8.peak, "the smaller of transformers'", min(peaks)))
    return "\n".join(lines)


def compared(what: str, ours: int, whose: str, theirs: int) -> str:
    """Whether a size in int8 is at most that of the other system."""
    verdict = "no larger" if ours <= theirs else "LARGER"
    return f"{what} {ours / 1e6:,.2f} MB, {whose} {theirs / 1e6:,.2f} MB: {verdict}"


def ratio(ours: float, other: float | None) -> str:
    """The ratio of two speeds."""
    return "-" if other is None else f"{ours / other:.2f}"


def share_equal(ours: Ids, theirs: Ids) -> float:
    """The fraction of equal tokens at equal positions."""
    pairs = [pair for a, b in zip(ours, theirs, strict=True) for pair in zip(a, b, strict=False)]
    return sum(a == b for a, b in pairs) / len(pairs)


def main() -> None:
    """Prepare the weights, measure case by case, print the tables and write the results."""
    given = speed_parser(__doc__).parse_args()
    set_cap(given.cap)
    torch.set_num_threads(2)
    os.environ["HF_HUB_OFFLINE"] = "1"
    by_name = {case.name: case for case in CASES}
    if given.worker is not None:
        work(SYSTEMS[given.worker], by_name[given.case], given.folder)
        return
    if given.case is not None:
        prepare(by_name[given.case], given.folder)
        return
    named = given.systems.split("|")
    chosen = [i for i, system in enumerate(SYSTEMS) if any(n in system.name for n in named)]
    cases = [case for case in CASES if any(n in case.name for n in given.only.split("|"))]
    tables = []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            converted = Path(folder) / case.folder
            if not converted.exists():
                converted.mkdir()
                in_its_own_process(case, converted)
            tables.append(measure(case, chosen, given.rounds, Path(folder)))
            print(tables[-1], end="\n\n", flush=True)
    top = heading(command_line(), "transformers", "ctranslate2")
    save_tables(given, RESULTS, tables, top)


def in_its_own_process(case: Case, folder: Path) -> None:
    """Convert the weights in a process whose peak memory is not measured."""
    import subprocess

    command = [sys.executable, __file__, "--case", case.name, "--folder", str(folder)]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
