"""The fuzz targets: every function that reads files or input of others, with its seeds.

A target returns a value or raises a `JumokError`. Anything else is a fault.
"""

import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from . import fuzz_corpus as seeds
from .fuzz_mutations import NASTY_TEXTS, Files

if TYPE_CHECKING:
    from jumok.interpret.trace import Trace
    from jumok.tasks.pipeline.pipeline import Pipeline
    from jumok.text.tokenizer import Tokenizer

ODD_TEXTS = (
    "한글 abc",
    "",
    " ",
    "\u202e\u0301👨‍👩‍👧‍👦",
    "[CLS] <s> </s>",
    "가" * 200,
    "\ufeff\x01",
)


class UnexpectedError(Exception):
    """An error message that is not a sentence of jumok."""


@dataclass(frozen=True)
class FuzzTarget:
    """A target; `share` is its part of a million inputs: fast targets get most."""

    name: str
    seeds: Callable[[], Sequence[Files]]
    run: Callable[[Files], object]
    share: int
    seconds: float = 1.0  # processor time of one input


_HOME: dict[int, Path] = {}  # by process id, as workers are forked


@contextlib.contextmanager
def folder_of(files: Files) -> Iterator[Path]:
    """Write the files into a folder of this process, in memory if available."""
    home = _HOME.get(os.getpid())
    if home is None:
        fast = Path("/dev/shm")
        home = Path(tempfile.mkdtemp(prefix="fuzz-", dir=fast if fast.is_dir() else None))
        _HOME[os.getpid()] = home
    for name, content in files.items():
        (home / name).write_bytes(content)
    try:
        yield home
    finally:
        for path in home.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def use_folder(home: Path) -> None:
    """Use a folder for this process's files that its caller removes."""
    _HOME[os.getpid()] = home


def remove_folder() -> None:
    """Remove this process's folder."""
    home = _HOME.pop(os.getpid(), None)
    if home is not None:
        shutil.rmtree(home, ignore_errors=True)


def _only(files: Files) -> bytes:
    return next(iter(files.values()), b"")


def _decoded(data: bytes) -> str:
    """Decode any bytes; lone surrogates are kept, as in JSON."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "surrogateescape")


def recipe(files: Files) -> object:
    """A recipe in a file of TOML."""
    from jumok.tasks.recipe.recipe import load_recipe

    with folder_of(files) as home:
        return load_recipe(str(home / "recipe.toml")).to_toml()


def words(files: Files) -> object:
    """key=value words over a recipe."""
    from jumok.tasks.recipe.recipe import load_recipe

    return load_recipe("numbers", _decoded(_only(files)).split("\n"))


def vocabulary(files: Files) -> object:
    """A `.model` file, and texts encoded and decoded with it."""
    from jumok.text.sentencepiece import SentencePieceTokenizer

    return _used(SentencePieceTokenizer(_only(files)))


def _used(found: "Tokenizer") -> object:
    return [found.decode(found.encode(text)) for text in ODD_TEXTS] + found.pieces(ODD_TEXTS[0])


def weights(files: Files) -> object:
    """A safetensors file, read and mapped."""
    from jumok.pretrained.memory_map import mmap_safetensors
    from jumok.safetensors_io import deserialize

    with folder_of(files) as home:
        mmap_safetensors(home / "model.safetensors")
    return deserialize(_only(files))


def header(files: Files) -> object:
    """The header of a safetensors file alone."""
    from jumok.safetensors_io import read_header

    with folder_of(files) as home:
        return read_header(home / "model.safetensors")


def gguf(files: Files) -> object:
    """The header of a GGUF file, its first tensor, and the folder that is made of a small one."""
    from jumok.formats.gguf_checkpoint import write_hf_folder
    from jumok.formats.gguf_reader import parse_gguf, read_gguf

    found = parse_gguf(_only(files), len(_only(files)), Path("model.gguf"))
    if not found.tensors or sum(each.n_bytes for each in found.tensors.values()) > 1 << 16:
        return found
    with folder_of({"model.gguf": _only(files)}) as home:
        first = read_gguf(home / "model.gguf").read(next(iter(found.tensors)))
        if "token_embd.weight" in found.tensors:
            write_hf_folder(home / "model.gguf", home / "hf")
        return first


def _ggufs() -> list[Files]:
    """Files with a tensor of each type, and parts of tiny models of each architecture."""
    from jumok.formats.gguf_architectures import ARCHITECTURES
    from jumok.native.gguf_types import TYPES

    files = [_gguf("llama", {"blk.0.attn_q.weight": ((2, 256), kind)}) for kind in TYPES]
    for arch in ARCHITECTURES.values():
        shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (4, 4)}
        shapes |= {f"blk.0.{name}.weight": (4,) for name in arch.names if name.endswith("norm")}
        shapes |= {"blk.0.attn_output.weight": (4, 4)}
        if arch.has_rope_table:
            shapes["rope_freqs.weight"] = (2,)
        files.append(_gguf(arch.name, {name: (shape, 0) for name, shape in shapes.items()}))
    return files


def _gguf(arch: str, tensors: Mapping[str, tuple[tuple[int, ...], int]]) -> Files:
    """A file with the sizes of a tiny model, four pieces, and these tensors: shape and type."""
    import struct
    from math import prod

    from jumok.native.gguf_types import TYPES

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    sizes = {"context_length": 4, "embedding_length": 4, "feed_forward_length": 4}
    sizes |= {"block_count": 1, "attention.head_count": 1, "attention.sliding_window": 2}
    pairs = [text("general.architecture") + struct.pack("<I", 8) + text(arch)]
    pairs.append(text("general.alignment") + struct.pack("<II", 4, 32))
    pairs += [text(f"{arch}.{key}") + struct.pack("<II", 4, size) for key, size in sizes.items()]
    for key in ("attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon"):
        pairs.append(text(f"{arch}.{key}") + struct.pack("<If", 6, 1e-5))
    pattern = struct.pack("<IIQ?", 9, 7, 1, True)
    pairs.append(text(f"{arch}.attention.sliding_window_pattern") + pattern)
    model = "llama" if arch == "gemma3" else "gpt2"
    pairs.append(text("tokenizer.ggml.model") + struct.pack("<I", 8) + text(model))
    pieces = b"".join(map(text, ("<unk>", "가", "나", "가나")))
    pairs.append(text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 4) + pieces)
    scores = struct.pack("<IIQ4f", 9, 6, 4, 0, -1, -2, -0.5)
    pairs.append(text("tokenizer.ggml.scores") + scores)
    pairs.append(text("tokenizer.ggml.token_type") + struct.pack("<IIQ4i", 9, 5, 4, 2, 1, 1, 1))
    merges = struct.pack("<IIQ", 9, 8, 1) + text("가 나")
    pairs.append(text("tokenizer.ggml.merges") + merges)
    table, data = b"", b""
    for name, (shape, kind) in tensors.items():
        table += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        table += struct.pack("<IQ", kind, len(data))
        n_bytes = prod(shape) // TYPES[kind].weights * TYPES[kind].bytes
        value = struct.pack("<f", 1.0) if kind == 0 else bytes(4)  # the divisors of a rotation
        data += (value * (n_bytes // 4 + 1))[:n_bytes]
        data += bytes(-len(data) % 32)
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pairs) + table
    return {"model.gguf": header + bytes(-len(header) % 32) + data}


def trace(files: Files) -> object:
    """A trace file, with each of its parts read."""
    from jumok.interpret.trace import Trace

    with folder_of(files) as home:
        found = Trace.open(home / "trace.safetensors")
        for block in found.info.blocks:
            for layer in range(min(block.layers, 2)):
                found.weights(block.name, layer)
            found.mask(block.name)
            found.thumbnails(block.name)
        return found.info.to_json()


def tokenizer(files: Files) -> object:
    """The tokenizer of a Hugging Face folder, and texts encoded and decoded with it."""
    from jumok.errors import InputError
    from jumok.safe_json import read_json
    from jumok.text.pretrained import load_tokenizer

    with folder_of(files) as home:
        config = read_json(home / "config.json")
        found = load_tokenizer(home, config)
    if found is None:
        return None
    found.encode_hf(ODD_TEXTS)
    found.apply_template(found.encode(ODD_TEXTS[0]), found.encode(ODD_TEXTS[4]), 9)
    for odd in (len(found), 10**9, -1, 2**70):
        with contextlib.suppress(InputError):
            found.decode([0, 1, len(found) - 1, odd])
    return _used(found)


def config(files: Files) -> object:
    """The config.json, generation_config.json and index of a Hugging Face checkpoint."""
    from jumok.pretrained.architecture import parse_config
    from jumok.pretrained.checkpoint import open_checkpoint

    with folder_of(files) as home:
        described = parse_config(_config(home), [])
        return described.name_rules(), open_checkpoint(home)


def _config(home: Path) -> dict[str, object]:
    from jumok.safe_json import read_json

    return read_json(home / "config.json")


def run(files: Files) -> object:
    """The folder of a run, loaded for a prediction."""
    from jumok.tasks.runs.load import load

    with folder_of(files) as home:
        return load(home, device="cpu").predict(["이 영화"])


def manifest(files: Files) -> object:
    """The manifest of a checkpoint."""
    from jumok.training.checkpoints.manifest import parse_manifest

    return parse_manifest(_only(files))


def reports(files: Files) -> object:
    """The metrics.jsonl of a run and its tables."""
    from jumok.training.reporting.metrics import (
        MetricsLog,
        best_evaluation,
        evaluation_table,
        evaluations,
        to_csv,
    )

    with folder_of(files) as home:
        rows = evaluations(MetricsLog(home, resumed_step=25).records)
        return to_csv(rows), best_evaluation(rows), evaluation_table(rows)


def table(files: Files) -> object:
    """A table file, read once with bad rows skipped and once with bad rows as errors."""
    from jumok.data.files.tables import read_table

    with folder_of(files) as home:
        path = next(home.iterdir())
        bio = path.name.startswith("a.bio")
        lines = path.name.startswith("a.txt")
        wanted = ["text"] if bio or lines else ["text", "label"]
        form = "bio" if bio else None
        rows = read_table(path, wanted, format=form, on_bad_rows="skip")  # type: ignore[arg-type]
        read_table(path, wanted, format=form)  # type: ignore[arg-type]
        return rows.column("text")[:3]


def archive(files: Files) -> object:
    """The zip archive of a pickle; its content is not read."""
    from jumok.pretrained.zip_check import check_zip

    check_zip(io.BytesIO(_only(files)), len(_only(files)))
    return None


def _json_object(body: bytes) -> dict[str, object]:
    """The JSON object in the body of a request."""
    from jumok.errors import InputError
    from jumok.web.errors import RequestError
    from jumok.web.requests import json_object

    try:
        return json_object(body, allow_surrogates=True)
    except RequestError as error:
        raise InputError(error.message) from error


def request(files: Files) -> object:
    """The body of a request to the page's server."""
    from jumok.errors import InputError
    from jumok.viewer.figure_requests import FigureRequest
    from jumok.viewer.request_schema import TraceRequest
    from jumok.web.errors import RequestError

    body = _json_object(_only(files))
    with contextlib.suppress(InputError):
        FigureRequest.of_json(body)
    try:
        return TraceRequest.of_json(body)
    except RequestError as error:
        raise InputError(error.message) from error


def figure(files: Files) -> object:
    """A figure request, drawn from a trace."""
    from jumok.viewer.figure_requests import FigureRequest, write_figure

    return write_figure(_trace(), FigureRequest.of_json(_json_object(_only(files))))


@cache
def _trace_bytes() -> bytes:
    return _only(seeds.traces()[0])


def _trace() -> "Trace":
    from jumok.interpret.trace import Trace

    with folder_of({"trace.safetensors": _trace_bytes()}) as home:
        return Trace.open(home / "trace.safetensors")


def state(files: Files) -> object:
    """The fragment of an address, and a Range header."""
    from jumok.viewer.responses import parse_range
    from jumok.viewer.view_state import ViewState
    from jumok.web.access import AllowedHosts

    text = _decoded(_only(files))
    parse_range(text, 1000)
    AllowedHosts.of("127.0.0.1", 8000).allows(text)
    return ViewState.parse(text)


def pattern(files: Files) -> object:
    """A regular expression for constrained decoding."""
    from jumok.decoding.constraints.regex import compile_regex

    return compile_regex(_decoded(_only(files))).matches("12,000원")


@cache
def _loaded(task: str) -> "Pipeline":
    from jumok.tasks.runs.load import load

    home = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        return load(seeds.write_run(home / task, task), device="cpu")
    finally:
        shutil.rmtree(home)


def text(files: Files) -> object:
    """An input text of a classifier and of a generative model."""
    asked = _decoded(_only(files))
    answers = [_loaded("classification")(asked)]
    writer = _loaded("sequence_to_sequence").with_decoding(["max_length=3"])
    return [*answers, writer(asked)]


def traced(files: Files) -> object:
    """A text to trace, with a target."""
    from jumok.interpret.tracing import trace as tracing

    asked = _decoded(_only(files))
    if len(asked) % 2:
        return tracing(_loaded("classification"), asked).info.to_json()
    return tracing(_loaded("sequence_to_sequence"), "삼 일", asked).info.to_json()


def command(files: Files) -> object:
    """A command line in an empty folder; its output is discarded."""
    from jumok.cli import main

    asked = _decoded(_only(files)).split("\n")
    if _does_more_than_read(asked):
        return None
    here, run_folder = Path.cwd(), _run_folder()
    asked = [str(run_folder) if word == "RUN" else word.replace("\0", "") for word in asked]
    out, err = _stream(), _stream("backslashreplace")  # as in Python
    with folder_of({"a.tsv": b"text\tlabel\na\tyes\n"}) as home:
        os.chdir(home)
        was = sys.stdin
        sys.stdin = _stream()
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                main(asked)
        except SystemExit as end:
            code = end.code
        finally:
            sys.stdin = was
            os.chdir(here)
    err.flush()
    said = err.buffer.getvalue().decode()  # type: ignore[attr-defined]
    if "bug in jumok" in said or "Traceback" in said or code not in (0, 1, 2, 3, 4, 5):
        raise UnexpectedError(f"exit {code}: {said[-300:]}")
    return said


def _stream(errors: str = "strict") -> io.TextIOWrapper:
    """A text stream like stdout."""
    return io.TextIOWrapper(io.BytesIO(), "utf-8", errors, write_through=True)


def _does_more_than_read(asked: Sequence[str]) -> bool:
    """Whether the arguments would train, serve, download or write a vocabulary."""
    from jumok.tasks.recipe.recipe import builtin_recipes

    verbs, absent = {*builtin_recipes(), "data", "train"}, ["train", "none.toml"]
    fetched = any(re.fullmatch(r"[\w.-]+/[\w.-]+", word) for word in asked)
    return (
        (bool(verbs & {*asked}) and asked[:2] != absent)
        or ("view" in asked and "--export" not in asked and "RUN" in asked)
        or ("import" in asked and fetched)
    )


@cache
def _run_folder() -> Path:
    import atexit

    home = Path(tempfile.mkdtemp(prefix="fuzz-run-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return seeds.write_run(home / "run")


def ids(files: Files) -> object:
    """Ids outside the vocabulary or the model."""
    import torch

    raw = _only(files).ljust(8, b"\0")
    numbers = [
        int.from_bytes(raw[i : i + 8], "little", signed=True) for i in range(0, len(raw) - 7, 8)
    ][:20]
    loaded = _loaded("classification")
    from jumok.errors import InputError

    with contextlib.suppress(InputError):
        loaded.vocabulary.decode(numbers)
    return loaded.logits(torch.tensor([numbers]))


def _ids() -> list[Files]:
    rows = ([1, 5, 7], [0] * 16, [3], [58, 59])
    return [{"ids.bin": b"".join(i.to_bytes(8, "little") for i in row)} for row in rows]


def _configs() -> list[Files]:
    return seeds.configs()


def _recipes() -> list[Files]:
    tasks = ("classification", "sequence_to_sequence", "language_modeling")
    return [{"recipe.toml": seeds.recipe(task).encode()} for task in tasks]


def _words() -> list[Files]:
    lines = seeds.WORDS.strip().split("\n")
    return [{"words.txt": line.encode()} for line in lines]


def _odd_texts() -> list[Files]:
    odd = [{"text.txt": text.encode("utf-8", "surrogatepass")} for text in NASTY_TEXTS]
    return [*seeds.texts(), *odd]


TARGETS: Mapping[str, FuzzTarget] = {
    target.name: target
    for target in (
        FuzzTarget("header", seeds.weights, header, 235_000),
        FuzzTarget("gguf", _ggufs, gguf, 40_000),
        FuzzTarget("manifest", seeds.manifests, manifest, 130_000),
        FuzzTarget("request", seeds.requests, request, 130_000),
        FuzzTarget("state", seeds.states, state, 170_000),
        FuzzTarget("archive", seeds.archives, archive, 220_000),
        FuzzTarget("weights", seeds.weights, weights, 15_000),
        FuzzTarget("reports", seeds.reports, reports, 12_000),
        FuzzTarget("vocabulary", seeds.vocabularies, vocabulary, 4_000),
        FuzzTarget("config", _configs, config, 8_000),
        FuzzTarget("trace", seeds.traces, trace, 4_000),
        FuzzTarget("table", seeds.tables, table, 6_000),
        FuzzTarget("recipe", _recipes, recipe, 5_000),
        FuzzTarget("words", _words, words, 1_500),
        FuzzTarget("pattern", seeds.patterns, pattern, 40, seconds=4.0),
        FuzzTarget("ids", _ids, ids, 12_000),
        FuzzTarget("tokenizer", seeds.tokenizers, tokenizer, 4_000),
        FuzzTarget("text", _odd_texts, text, 500),
        FuzzTarget("traced", _odd_texts, traced, 300),
        FuzzTarget("run", seeds.runs, run, 500),
        FuzzTarget("figure", lambda: seeds.requests()[2:], figure, 300),
        FuzzTarget("command", seeds.commands, command, 1_500),
    )
}
