"""Inference speed of an encoder of BERT-base size against transformers, onnxruntime, OpenVINO.

    python benchmarks/encoder_speed.py [--rounds 7] [--only "1 x 128"] [--cap avx2]

12 layers, d 768, 12 heads, d_ff 3072, 30,522 tokens, post-norm, GELU; random weights from a fixed
seed, initialized by transformers, loaded by jumok and (exported, quantized) by the others. Texts
have 128 tokens, in the last case 5 to 128 (a distribution as in reviews), padded to the longest.
The only inputs are ids and the attention mask.

Each system is a process of its own with two threads, and they take turns; tokens a second are real
tokens. onnxruntime's int8 is `quantize_dynamic`, of the graph as exported and of that graph with
its BERT fusions: the better of the two counts. OpenVINO's int8 is NNCF's quantization of weights
and activations, calibrated with 32 texts; `--packages` is the folder of another environment
(`lib/python3.11/site-packages`) that has openvino and nncf. onnxruntime has no
setting that limits its instructions, and OpenVINO fails where its oneDNN is limited: with `--cap`
choose others by `--systems`. Errors are
max|a - b| / max(1, max|b|) of hidden states against transformers in float32; `equal` is how often
the token embedding with the largest dot product with the hidden state is the same.
"""

import logging
import os
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from turns import answer, command_line, heading, save_tables, set_cap, speed_parser, take_turns

RESULTS = Path(__file__).parent / "results"
VOCABULARY, LAYERS, LONGEST = 30_522, 12, 128

Read = Callable[[Tensor, Tensor], Tensor]  # ids and mask (B, T) -> hidden states (B, T, D)


@dataclass(frozen=True)
class Case:
    """The input of one round: `times` batches of `texts` texts."""

    name: str
    texts: int
    times: int
    padded: bool = False
    faster_in_int8: float = 1.0  # the goal, to the best of the others

    def batch(self, seed: int = 1) -> tuple[Tensor, Tensor]:
        """Ids and attention mask (B, T)."""
        rng = torch.Generator().manual_seed(seed)
        lengths = torch.full((self.texts,), LONGEST)
        if self.padded:
            drawn = 19 * torch.exp(0.7 * torch.randn(self.texts, generator=rng) - 0.245)
            lengths = drawn.long().clamp(5, LONGEST)
            lengths[0] = LONGEST
        real = torch.arange(LONGEST) < lengths[:, None]
        ids = torch.randint(1000, VOCABULARY, real.shape, generator=rng)
        return ids.masked_fill(~real, 0), real


CASES = (
    Case("1 x 128", 1, 4),
    Case("32 x 128", 32, 1),
    Case("32 x 5 to 128, padded", 32, 1, padded=True, faster_in_int8=3.0),
)


# --- the same weights for every system ------------------------------------------------------------


def prepare(folder: Path) -> None:
    """Save the weights: transformers' folder, the graphs of onnxruntime and of OpenVINO."""
    from transformers import BertConfig, BertModel
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call, unused-ignore]
    logging.getLogger().setLevel(logging.ERROR)  # silences onnxruntime's hints
    torch.manual_seed(0)
    config = BertConfig(vocab_size=VOCABULARY, num_hidden_layers=LAYERS)
    model = BertModel(config, add_pooling_layer=False)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 1:
                weight.add_(0.1 * torch.randn_like(weight))
    model.save_pretrained(folder / "transformers")
    export(folder)
    if has_openvino():
        export_to_openvino(folder)


class _Hidden(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        return self.model(input_ids=ids, attention_mask=real).last_hidden_state  # type: ignore[no-any-return]


def export(folder: Path) -> None:
    """The model as a graph; the graph with fused operations; both in int8."""
    from onnx import TensorProto
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers import optimizer

    model = _Hidden(their_model(folder, attention="eager")).eval()  # this graph can be fused
    ids = torch.zeros(2, 16, dtype=torch.int64)
    axes = {0: "texts", 1: "tokens"}
    plain, fused = folder / "plain.onnx", folder / "fused.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            (ids, torch.ones_like(ids)),
            str(plain),
            input_names=["ids", "real"],
            output_names=["hidden"],
            dynamic_axes={"ids": axes, "real": axes, "hidden": axes},
            opset_version=17,
            dynamo=False,  # the fusions match only this exporter's graph
        )
    optimizer.optimize_model(
        str(plain), model_type="bert", num_heads=12, hidden_size=768, opt_level=0
    ).save_model_to_file(str(fused))
    for graph in (plain, fused):
        quantize_dynamic(
            graph,
            graph.with_suffix(".int8.onnx"),
            weight_type=QuantType.QInt8,
            extra_options={"DefaultTensorType": TensorProto.FLOAT},
        )


def has_openvino() -> bool:
    """Whether OpenVINO and NNCF are installed, here or in the folder of `--packages`."""
    return all(find_spec(name) for name in ("openvino", "nncf"))


def export_to_openvino(folder: Path) -> None:
    """The exported graph for OpenVINO, and its int8 by NNCF."""
    import nncf
    import openvino

    model = openvino.convert_model(folder / "plain.onnx")
    openvino.save_model(model, folder / "float32.xml", compress_to_fp16=False)
    ids, real = CASES[-1].batch(seed=2)  # other texts than the measured ones
    texts = [
        {"ids": ids[i : i + 1, :n].numpy(), "real": real[i : i + 1, :n].long().numpy()}
        for i, n in enumerate(real.sum(dim=1).tolist())
    ]
    quantized = nncf.quantize(
        model,
        nncf.Dataset(texts),
        model_type=nncf.ModelType.TRANSFORMER,
        subset_size=len(texts),
    )
    openvino.save_model(quantized, folder / "int8.xml", compress_to_fp16=False)


def their_model(folder: Path, attention: str = "sdpa") -> nn.Module:
    """transformers' model in float32."""
    from transformers import BertModel
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call, unused-ignore]
    model: nn.Module = BertModel.from_pretrained(
        folder / "transformers", attn_implementation=attention, add_pooling_layer=False
    )
    return model.eval()


# --- the systems ----------------------------------------------------------------------------------


def transformers(folder: Path, how: str) -> Read:
    """transformers with fused attention in the given dtype."""
    model = their_model(folder)
    if how == "medium":
        torch.set_float32_matmul_precision("medium")
    else:
        model = model.to(getattr(torch, how))

    def read(ids: Tensor, real: Tensor) -> Tensor:
        mask = None if bool(real.all()) else real.long()
        return model(input_ids=ids, attention_mask=mask).last_hidden_state  # type: ignore[no-any-return]

    return read


def onnxruntime(folder: Path, how: str) -> Read:
    """One of the graphs."""
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = 2, 1
    # no spinning threads while the other systems run
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = InferenceSession(
        str(folder / f"{how}.onnx"), options, providers=["CPUExecutionProvider"]
    )

    def read(ids: Tensor, real: Tensor) -> Tensor:
        given = {"ids": ids.numpy(), "real": real.long().numpy()}
        return torch.from_numpy(session.run(["hidden"], given)[0])

    return read


def openvino(folder: Path, how: str) -> Read:
    """The graph in float32, in the precision that OpenVINO chooses for it, or in int8."""
    from openvino import Core

    options = {"INFERENCE_NUM_THREADS": torch.get_num_threads(), "PERFORMANCE_HINT": "LATENCY"}
    if how == "float32":
        options["INFERENCE_PRECISION_HINT"] = "f32"
    graph = folder / ("int8.xml" if how == "int8" else "float32.xml")
    request = Core().compile_model(graph, "CPU", options).create_infer_request()

    def read(ids: Tensor, real: Tensor) -> Tensor:
        answers = request.infer({"ids": ids.numpy(), "real": real.long().numpy()})
        return torch.from_numpy(answers[0])

    return read


def jumok(folder: Path, how: str) -> Read:
    """The encoder as it is, or optimized."""
    from jumok.inference import optimize
    from jumok.nn import NO_MASK, AttentionMask
    from jumok.pretrained.checkpoint import open_checkpoint
    from jumok.pretrained.state_dict import model_from_hf

    checkpoint = open_checkpoint(folder / "transformers")
    model = model_from_hf(checkpoint.config, checkpoint.tensors).model.eval()
    if how != "plain":
        model = optimize(model, how)  # type: ignore[arg-type]

    def read(ids: Tensor, real: Tensor) -> Tensor:
        mask = NO_MASK if bool(real.all()) else AttentionMask.from_padding(real)
        return model(ids, mask)  # type: ignore[no-any-return]

    return read


@dataclass(frozen=True)
class System:
    """A library in one precision."""

    name: str
    make: Callable[[Path, str], Read]
    how: str


SYSTEMS = (
    System("transformers fp32", transformers, "float32"),
    System('transformers fp32, "medium"', transformers, "medium"),
    System("transformers bf16", transformers, "bfloat16"),
    System("onnxruntime fp32", onnxruntime, "plain"),
    System("onnxruntime int8", onnxruntime, "plain.int8"),
    System("onnxruntime int8, fused", onnxruntime, "fused.int8"),
    System("OpenVINO fp32", openvino, "float32"),
    System("OpenVINO, its own precision", openvino, "own"),
    System("OpenVINO int8", openvino, "int8"),
    System("jumok plain fp32", jumok, "plain"),
    System("jumok fp32", jumok, "float32"),
    System("jumok bf16", jumok, "bfloat16"),
    System("jumok int8", jumok, "int8"),
)

# The goals: jumok, the other systems (the best of them counts), the speed ratio or the case's.
WANTED = (
    ("jumok fp32", ("transformers fp32",), 2.0),
    ("jumok fp32", ("onnxruntime fp32", "OpenVINO fp32"), 1.0),
    ("jumok bf16", ("transformers bf16",), 1.1),
    ("jumok int8", ("onnxruntime int8", "onnxruntime int8, fused", "OpenVINO int8"), None),
)


# --- rounds and tables ----------------------------------------------------------------------------


def work(system: System, case: Case, folder: Path) -> None:
    """A worker: run in rounds, then save the hidden states without padding."""
    read = system.make(folder, system.how)
    ids, real = case.batch()
    n_tokens = case.times * int(real.sum())

    def turn() -> int:
        with torch.inference_mode():
            for _ in range(case.times):
                read(ids, real)
        return n_tokens

    answer(turn)
    with torch.inference_mode():
        hidden = read(ids, real)[real].float()
    path = folder / f"hidden-{SYSTEMS.index(system)}.safetensors"
    save_file({"hidden": hidden.contiguous().clone()}, path)


def measure(
    case: Case, chosen: Sequence[int], rounds: int, folder: Path, options: Sequence[str]
) -> str:
    """The table of one case."""
    given = ["--case", case.name, "--folder", str(folder), *options]
    speeds = take_turns(__file__, chosen, rounds, given)
    medians = {SYSTEMS[number].name: statistics.median(s) for number, s in speeds.items()}
    hidden = {
        number: load_file(folder / f"hidden-{number}.safetensors")["hidden"] for number in chosen
    }
    truth, words = hidden.get(0), word_vectors(folder)
    lines = [
        f"{case.name}: {case.times} x {case.texts} texts a turn",
        f"{'system':<30} {'min':>7} {'median':>7} {'max':>7} real tokens/s "
        f"{'GFLOP/s':>8} {'error':>9} {'equal':>7}",
    ]
    for number in chosen:
        s, name = speeds[number], SYSTEMS[number].name
        compared = "" if truth is None else compare(hidden[number], truth, words)
        lines.append(
            f"{name:<30} {min(s):7,.0f} {medians[name]:7,.0f} {max(s):7,.0f} {'':13} "
            f"{medians[name] * flop_a_token() / 1e9:8,.0f} {compared}"
        )
    return "\n".join([*lines, *verdicts(case, medians)])


def verdicts(case: Case, medians: dict[str, float]) -> list[str]:
    """The goals and the measured ratios."""
    lines = []
    for actual, others, goal in WANTED:
        best = max(
            (name for name in others if name in medians), key=medians.__getitem__, default=None
        )
        if best is not None and actual in medians:
            reached, expected = medians[actual] / medians[best], goal or case.faster_in_int8
            verdict = "reached" if reached >= expected else "NOT REACHED"
            lines.append(f"{reached:5.2f}  {actual} / {best}, wanted {expected}: {verdict}")
    return lines


def flop_a_token() -> float:
    """FLOP per token of the linear layers alone: nearly all of the work."""
    return 2 * LAYERS * (4 * 768 * 768 + 2 * 768 * 3072)


def word_vectors(folder: Path) -> Tensor:
    """The token embedding (V, D)."""
    from safetensors import safe_open

    with safe_open(folder / "transformers" / "model.safetensors", "pt") as file:
        return file.get_tensor("embeddings.word_embeddings.weight")  # type: ignore[no-any-return]


def compare(actual: Tensor, truth: Tensor, words: Tensor) -> str:
    """The error of hidden states, and how often the nearest token is the same."""
    error = (actual - truth).abs().max() / truth.abs().max().clamp(min=1)
    equal = ((actual @ words.T).argmax(-1) == (truth @ words.T).argmax(-1)).float().mean()
    return f"{error:9.1e} {equal:7.1%}"


def main() -> None:
    """Prepare the weights, measure case by case, print the tables and write the results."""
    parser = speed_parser(__doc__)
    parser.add_argument("--packages", help="a folder that has openvino and nncf")
    given = parser.parse_args()
    if given.packages:
        sys.path.append(given.packages)
    set_cap(given.cap)
    torch.set_num_threads(2)
    os.environ["HF_HUB_OFFLINE"] = "1"
    options = ["--packages", given.packages] if given.packages else []
    if given.worker is not None:
        by_name = {case.name: case for case in CASES}
        work(SYSTEMS[given.worker], by_name[given.case], given.folder)
        return
    if given.folder is not None:
        prepare(given.folder)
        return
    named = given.systems.split("|")
    systems = [s for s in SYSTEMS if s.make is not openvino or has_openvino()]
    chosen = [SYSTEMS.index(s) for s in systems if any(n in s.name for n in named)]
    load = os.getloadavg()[0]
    tables = []
    with tempfile.TemporaryDirectory() as folder:
        own_process = [sys.executable, __file__, "--folder", folder]  # its memory is released
        subprocess.run([*own_process, *options], check=True)
        for case in CASES:
            if any(name in case.name for name in given.only.split("|")):
                tables.append(measure(case, chosen, given.rounds, Path(folder), options))
                print(tables[-1], end="\n\n", flush=True)
    others = ("openvino", "nncf") if has_openvino() else ()
    top = heading(command_line(), "transformers", "onnxruntime", *others)
    top += f"load of others {load:.1f}\n"
    save_tables(given, RESULTS, tables, top)


if __name__ == "__main__":
    main()
