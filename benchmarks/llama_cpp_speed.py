"""Decoding speed of language models against llama.cpp: the same random weights, greedy.

    python benchmarks/llama_cpp_speed.py --library FOLDER [--rounds 5] [--only gpt2] [--cap avx2]

GPT-2 of the small size and a model of the shape of Qwen3-0.6B, initialized by transformers from a
fixed seed and converted to GGUF by the `gguf` package: matrices in Q8_0 or Q4_0, vectors in
float32, as llama.cpp's own converter does. Prompts have 16 tokens; each row continues with exactly
64 more.

FOLDER has libllama and its backends for each instruction set; the npm package
@node-llama-cpp/linux-x64 has them compiled (`bins/linux-x64`). Without a cap the backend with the
highest score is loaded, as llama.cpp does itself; a cap chooses the backend of that set.

Each system is a process of its own with two threads, and they take turns. Tokens a second are the
generated ones, prompts included in the time. `equal` is the fraction of tokens that equal those of
jumok's kernel in float32: with random weights the best two logits are often close.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from decoding_speed import Ids, shaken, share_equal
from numpy.typing import NDArray
from torch import Tensor
from turns import answer, command_line, heading, save_tables, set_cap, speed_parser, take_turns

RESULTS = Path(__file__).parent / "results"
PROMPT, OUTPUT = 16, 64
BACKENDS = {"avx2": "haswell", "avx512": "skylakex"}  # llama.cpp's name of an instruction set

Turn = Callable[[Tensor], Ids]  # prompts (B, PROMPT) -> OUTPUT tokens each


@dataclass(frozen=True)
class Case:
    """A model and the number of rows that are decoded together."""

    name: str
    model: str
    vocabulary: int
    rows: int
    batches: int  # per round

    def prompts(self) -> Tensor:
        """Random prompts (B, PROMPT)."""
        chance = torch.Generator().manual_seed(1)
        return torch.randint(3, self.vocabulary, (self.rows, PROMPT), generator=chance)


CASES = (
    Case("gpt2 1 stream", "gpt2", 50_257, 1, 2),
    Case("gpt2 8 streams", "gpt2", 50_257, 8, 1),
    Case("qwen3-0.6b 1 stream", "qwen3-0.6b", 151_936, 1, 1),
    Case("qwen3-0.6b 8 streams", "qwen3-0.6b", 151_936, 8, 1),
)


# --- the same weights for both --------------------------------------------------------------------


def prepare(case: Case, folder: Path) -> None:
    """Save the weights in the formats of transformers and of llama.cpp."""
    from transformers import GPT2Config, GPT2LMHeadModel, Qwen3Config, Qwen3ForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call, unused-ignore]
    torch.manual_seed(0)
    model: Any
    if case.model == "gpt2":
        model = GPT2LMHeadModel(GPT2Config(vocab_size=case.vocabulary))
    else:
        shape = Qwen3Config(
            vocab_size=case.vocabulary,
            hidden_size=1024,
            num_hidden_layers=28,
            num_attention_heads=16,
            num_key_value_heads=8,
            head_dim=128,
            intermediate_size=3072,
            max_position_embeddings=4096,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6},
            tie_word_embeddings=True,
        )
        model = Qwen3ForCausalLM(shape).bfloat16()  # the dtype of its checkpoints
    shaken(model).save_pretrained(folder)  # type: ignore[operator]
    for name in ("Q8_0", "Q4_0"):
        write_gguf(model.config, model.state_dict(), folder / f"{name.lower()}.gguf", name)


def write_gguf(config: Any, weights: dict[str, Tensor], path: Path, name_of_type: str) -> None:
    """A GGUF file without a vocabulary: matrices in a type, vectors and positions in float32."""
    import gguf

    matrix_type = gguf.GGMLQuantizationType[name_of_type]
    family = config.model_type
    writer = gguf.GGUFWriter(str(path), family)
    writer.add_tokenizer_model("none")
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_file_type(gguf.LlamaFileType[f"MOSTLY_{name_of_type}"])
    if family == "gpt2":
        writer.add_feed_forward_length(4 * config.hidden_size)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    else:
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    for name, weight in gguf_tensors(config, weights):
        values = weight.float().contiguous().numpy()
        if values.ndim == 2 and name != "position_embd.weight":
            packed = gguf.quants.quantize(values, matrix_type)
            writer.add_tensor(name, packed, raw_dtype=matrix_type)
        else:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_tensors(config: Any, weights: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """transformers' tensors under the names of GGUF; those of Conv1D are (inputs, outputs)."""
    import gguf

    family = gguf.MODEL_ARCH[config.model_type.upper()]
    names = gguf.get_tensor_name_map(family, config.num_hidden_layers)
    for name, weight in weights.items():
        if not name.startswith("lm_head."):  # tied
            turned = weight.ndim == 2 and ".h." in name
            found = names.get_name(name, try_suffixes=(".weight", ".bias"))
            yield str(found), weight.T if turned else weight


# --- llama.cpp, by its C API ----------------------------------------------------------------------


class Parameters(ctypes.Structure):
    """llama.cpp's default parameters; those of later versions only grow at the end."""

    _fields_ = (("first", ctypes.c_uint32 * 4), ("rest", ctypes.c_byte * 496))


class Batch(ctypes.Structure):
    """llama_batch: the new tokens of several sequences."""

    _fields_ = (
        ("n_tokens", ctypes.c_int32),
        ("token", ctypes.POINTER(ctypes.c_int32)),
        ("embedding", ctypes.c_void_p),
        ("position", ctypes.POINTER(ctypes.c_int32)),
        ("n_sequences", ctypes.POINTER(ctypes.c_int32)),
        ("sequences", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
        ("logits", ctypes.POINTER(ctypes.c_int8)),
    )


class PoolParameters(ctypes.Structure):
    """ggml_threadpool_params."""

    _fields_ = (
        ("cpus", ctypes.c_bool * 512),
        ("threads", ctypes.c_int),
        ("priority", ctypes.c_int),
        ("poll", ctypes.c_uint32),
        ("strict", ctypes.c_bool),
        ("paused", ctypes.c_bool),
    )


class LlamaCpp:
    """A GGUF model in llama.cpp, with room for `rows` sequences and a pool of threads."""

    def __init__(self, folder: Path, gguf: Path, rows: int, vocabulary: int) -> None:
        threads = torch.get_num_threads()
        ggml = ctypes.CDLL(str(only(folder, "libggml.*so*")), ctypes.RTLD_GLOBAL)
        self.library = library = ctypes.CDLL(str(only(folder, "libllama.*so*")))
        self.backend = chosen_backend(folder)
        self.rows, self.vocabulary = rows, vocabulary
        ggml.ggml_backend_load.restype = ctypes.c_void_p
        ggml.ggml_backend_load(str(self.backend).encode())
        cpu = ctypes.CDLL(str(self.backend))
        self._declare(cpu)
        library.llama_log_set(QUIET, None)
        library.llama_backend_init()
        parameters = library.llama_model_default_params()
        self.model = library.llama_model_load_from_file(str(gguf).encode(), parameters)
        assert self.model, f"llama.cpp cannot read {gguf}"
        parameters = library.llama_context_default_params()
        parameters.first[:] = (256 * rows, 512, 512, rows)  # n_ctx, n_batch, n_ubatch, n_seq_max
        self.context = library.llama_init_from_model(self.model, parameters)
        assert self.context, "llama.cpp made no context"
        library.llama_set_n_threads(self.context, threads, threads)
        pool = cpu.ggml_threadpool_params_default(threads)
        library.llama_attach_threadpool(self.context, cpu.ggml_threadpool_new(pool), None)
        self.batch = library.llama_batch_init(PROMPT * rows, 0, 1)

    def _declare(self, cpu: ctypes.CDLL) -> None:
        """The types of the functions that are called."""
        pointer, library = ctypes.c_void_p, self.library
        cpu.ggml_threadpool_params_default.restype = PoolParameters
        cpu.ggml_threadpool_new.argtypes = (ctypes.POINTER(PoolParameters),)
        cpu.ggml_threadpool_new.restype = pointer
        for name, result, *arguments in (
            ("llama_log_set", None, LOGGER, pointer),
            ("llama_model_default_params", Parameters),
            ("llama_context_default_params", Parameters),
            ("llama_model_load_from_file", pointer, ctypes.c_char_p, Parameters),
            ("llama_init_from_model", pointer, pointer, Parameters),
            ("llama_set_n_threads", None, pointer, ctypes.c_int32, ctypes.c_int32),
            ("llama_attach_threadpool", None, pointer, pointer, pointer),
            ("llama_batch_init", Batch, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32),
            ("llama_get_memory", pointer, pointer),
            ("llama_memory_clear", None, pointer, ctypes.c_bool),
            ("llama_decode", ctypes.c_int32, pointer, Batch),
            ("llama_get_logits_ith", ctypes.POINTER(ctypes.c_float), pointer, ctypes.c_int32),
        ):
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments

    def generate(self, prompts: Tensor) -> Ids:
        """OUTPUT greedy tokens for each prompt (B, PROMPT)."""
        memory = self.library.llama_get_memory(self.context)
        self.library.llama_memory_clear(memory, True)
        ids = prompts.numpy()
        written = np.empty((self.rows, OUTPUT), dtype=np.int64)
        for n in range(OUTPUT):
            written[:, n] = self.step(ids, 0 if n == 0 else PROMPT + n - 1)
            ids = written[:, n : n + 1]
        return written.tolist()

    def step(self, ids: NDArray[np.int64], start: int) -> list[int]:
        """The most likely next token of each row, after new tokens (B, T) from a position on."""
        batch, (B, T) = self.batch, ids.shape
        batch.n_tokens = B * T
        for index in range(B * T):
            row, column = divmod(index, T)
            batch.token[index] = int(ids[row, column])
            batch.position[index] = start + column
            batch.n_sequences[index] = 1
            batch.sequences[index][0] = row
            batch.logits[index] = column == T - 1
        status = self.library.llama_decode(self.context, batch)
        assert status == 0, f"llama_decode returned {status}"
        return [int(self.logits(row * T + T - 1).argmax()) for row in range(B)]

    def logits(self, index: int) -> NDArray[np.float32]:
        """The logits (V) after the token with this index in the batch."""
        address = self.library.llama_get_logits_ith(self.context, index)
        return np.ctypeslib.as_array(address, (self.vocabulary,))


LOGGER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
QUIET = LOGGER(lambda level, text, data: None)


def only(folder: Path, pattern: str) -> Path:
    """The first file in a folder with a name like this."""
    found = sorted(folder.glob(pattern))
    assert found, f"{folder} must have a file {pattern}"
    return found[0]


def chosen_backend(folder: Path) -> Path:
    """The backend of the cap; without one that which scores highest on this processor."""
    cap = os.environ.get("JUMOK_CPU")
    if cap in BACKENDS:
        return folder / f"libggml-cpu-{BACKENDS[cap]}.so"
    ctypes.CDLL(str(folder / "libggml-base.so"), ctypes.RTLD_GLOBAL)
    backends = sorted(folder.glob("libggml-cpu-*.so"))
    return max(backends, key=lambda path: int(ctypes.CDLL(str(path)).ggml_backend_score()))


def llama_cpp(case: Case, folder: Path, library: Path, how: str) -> Turn:
    """llama.cpp with the weights of a GGUF file."""
    return LlamaCpp(library, folder / f"{how}.gguf", case.rows, case.vocabulary).generate


def jumok(case: Case, folder: Path, library: Path, how: str) -> Turn:
    """jumok's search with its kernel."""
    from jumok.decoding.config import DecodingConfig
    from jumok.decoding.generate import generate
    from jumok.decoding.inputs import GenerationInputs
    from jumok.decoding.stopping import StoppingCriteria
    from jumok.native import NativeDecoder, NativeModel
    from jumok.pretrained.checkpoint import open_checkpoint
    from jumok.pretrained.memory_map import release_pages
    from jumok.pretrained.state_dict import model_from_hf

    checkpoint = open_checkpoint(folder)
    plain = model_from_hf(checkpoint.config, checkpoint.tensors).model.eval()
    native = NativeModel(plain, how, on_packed=release_pages)  # type: ignore[arg-type]
    del plain, checkpoint
    config = DecodingConfig(beam=1, max_length=OUTPUT)

    def turn(prompts: Tensor) -> Ids:
        opening = GenerationInputs(prompts, StoppingCriteria(-1, [OUTPUT] * len(prompts)))
        decoder = NativeDecoder(native, capacity=PROMPT + OUTPUT)
        return [row[0].ids for row in generate(decoder, opening, config)]

    return turn


@dataclass(frozen=True)
class System:
    """A library in one format of weights."""

    name: str
    make: Callable[[Case, Path, Path, str], Turn]
    how: str


SYSTEMS = (
    System("llama.cpp Q8_0", llama_cpp, "q8_0"),
    System("jumok native fp32", jumok, "float32"),
    System("jumok native int8", jumok, "int8"),
    System("jumok native Q8_0", jumok, "q8_0"),
    System("llama.cpp Q4_0", llama_cpp, "q4_0"),
    System("jumok native Q4_0", jumok, "q4_0"),
)
# The goals: jumok, llama.cpp, the ratio of one stream and of eight.
WANTED = (
    ("jumok native int8", "llama.cpp Q8_0", {1: 1.0, 8: 1.2}),
    ("jumok native Q8_0", "llama.cpp Q8_0", {1: 1.0, 8: 1.2}),
    ("jumok native Q4_0", "llama.cpp Q4_0", {1: 0.9, 8: 1.2}),
)


# --- rounds and tables ----------------------------------------------------------------------------


def work(number: int, case: Case, folder: Path, library: Path) -> None:
    """A worker: generate in rounds, then save the tokens."""
    system, prompts = SYSTEMS[number], case.prompts()
    turn = system.make(case, folder / case.model, library, system.how)
    written: Ids = []

    def timed() -> int:
        for _ in range(case.batches):
            written[:] = turn(prompts)
        return case.batches * sum(map(len, written))

    answer(timed)
    np.save(folder / f"written-{number}.npy", np.array(written), allow_pickle=False)


def measure(case: Case, chosen: Sequence[int], rounds: int, folder: Path, library: Path) -> str:
    """The table of one case."""
    words = ["--case", case.name, "--folder", str(folder), "--library", str(library)]
    words += ["--threads", str(torch.get_num_threads())]
    speeds = take_turns(__file__, chosen, rounds, words)
    medians = {SYSTEMS[number].name: median(s) for number, s in speeds.items()}
    tokens = {n: np.load(folder / f"written-{n}.npy", allow_pickle=False).tolist() for n in chosen}
    lines = [
        f"{case.name}: {case.batches} x {case.rows} rows of {OUTPUT} tokens a turn",
        f"{'system':<24} {'min':>7} {'median':>7} {'max':>7} {'x llama.cpp Q8_0':>16} {'equal':>7}",
    ]
    theirs = medians.get(SYSTEMS[0].name)
    for number in chosen:
        name, s = SYSTEMS[number].name, speeds[number]
        times = "" if theirs is None else f"{medians[name] / theirs:.2f}"
        equal = f"{share_equal(tokens[number], tokens[1]):7.1%}" if 1 in chosen else ""
        lines.append(
            f"{name:<24} {min(s):7,.1f} {medians[name]:7,.1f} {max(s):7,.1f} {times:>16} {equal}"
        )
    for name, peer, goals in WANTED:
        if name in medians and peer in medians:
            reached, wanted = medians[name] / medians[peer], goals[case.rows]
            verdict = "reached" if reached >= wanted else "NOT REACHED"
            lines.append(f"{reached:.2f}  {name} / {peer}, wanted {wanted}: {verdict}")
    return "\n".join(lines)


def main() -> None:
    """Prepare the weights, measure case by case, print the tables and write the results."""
    parser = speed_parser(__doc__)
    parser.add_argument("--library", type=Path, required=True, help="the folder of libllama")
    parser.add_argument("--threads", type=int, default=2, help="of each system [2]")
    given = parser.parse_args()
    set_cap(given.cap)
    torch.set_num_threads(given.threads)
    os.environ["HF_HUB_OFFLINE"] = "1"
    by_name = {case.name: case for case in CASES}
    if given.worker is not None:
        work(given.worker, by_name[given.case], given.folder, given.library)
        return
    if given.case is not None:
        prepare(by_name[given.case], given.folder)
        return
    named = given.systems.split("|")
    chosen = [i for i, system in enumerate(SYSTEMS) if any(n in system.name for n in named)]
    load, tables = os.getloadavg()[0], []
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if not any(name in case.name for name in given.only.split("|")):
                continue
            converted = Path(folder) / case.model
            if not converted.exists():
                converted.mkdir()
                in_its_own_process(case, converted, given.library)
            tables.append(measure(case, chosen, given.rounds, Path(folder), given.library))
            print(tables[-1], end="\n\n", flush=True)
    top = heading(command_line(), "transformers", "gguf")
    top += f"{library_version(given.library)}, load of others {load:.1f}\n"
    save_tables(given, RESULTS, tables, top)


def in_its_own_process(case: Case, folder: Path, library: Path) -> None:
    """Convert the weights in a process of its own, whose memory is released."""
    command = [sys.executable, __file__, "--case", case.name, "--folder", str(folder)]
    subprocess.run([*command, "--library", str(library)], check=True)


def library_version(folder: Path) -> str:
    """The version of llama.cpp and the backend in use."""
    ctypes.CDLL(str(only(folder, "libggml.*so*")), ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(str(only(folder, "libllama.*so*")))
    library.llama_version.restype = ctypes.c_char_p
    name = library.llama_version().decode()
    return f"llama.cpp {name}, backend {chosen_backend(folder).stem.removeprefix('libggml-cpu-')}"


if __name__ == "__main__":
    main()
