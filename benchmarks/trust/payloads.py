"""Folders and files that contain code, or paths that leave them; none of it may take effect.

Each payload changes one thing in a valid folder: a tiny BERT in the format of Hugging Face, a run,
a trace, or a data file. If its code ran, it would create a folder `it-ran` next to the payload; a
path that leaves the folder would read the file `secret` next to it.
"""

import io
import json
import os
import pickle
import runpy
import struct
import subprocess
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch

from . import fuzz_corpus

MARKER, SECRET = "it-ran", "secret"

Change: TypeAlias = Callable[[Path], object]


@dataclass(frozen=True)
class Payload:
    """What is changed in which folder: "foreign", "run", "trace", "table" or "recipe"."""

    name: str
    base: str
    change: Change


class Call:
    """An object whose unpickling calls a function."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.call


class Built(Call):
    """The same by way of __reduce_ex__, with a state to set."""

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        return (*self.call, {"a": 1})


def _command(folder: Path) -> str:
    return f"mkdir '{folder.parent / MARKER}'"


def _code(folder: Path) -> str:
    return f"import os; os.makedirs({str(folder.parent / MARKER)!r}, exist_ok=True)"


def _calls(folder: Path) -> dict[str, object]:
    """Objects that act when they are unpickled."""
    return {
        "os.system": Call(os.system, _command(folder)),
        "eval": Call(eval, f"__import__('os').mkdir({str(folder.parent / MARKER)!r})"),
        "exec": Call(exec, _code(folder)),
        "subprocess": Call(subprocess.check_call, ["mkdir", str(folder.parent / MARKER)]),
        "runpy": Call(runpy.run_path, str(folder / "evil.py")),
        "mkdir": Built(os.mkdir, str(folder.parent / MARKER)),
        "open": Call(open, str(folder.parent / SECRET)),
        "torch.load": Call(torch.load, str(folder.parent / SECRET)),
        "getattr": Call(getattr, Call(__import__, "os"), "system"),
        "bytearray": Call(bytearray, 2**40),
        "partial": Call(partial, os.system, _command(folder)),
        "numpy": np.array([Call(os.system, _command(folder))], dtype=object),
    }


def _pickled(name: str, protocol: int = 2) -> Change:
    """pytorch_model.bin, as torch saves it, with an object that acts among its tensors."""

    def change(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        state = {"a": torch.ones(2), "b": _calls(folder)[name]}
        torch.save(state, folder / "pytorch_model.bin", pickle_protocol=protocol)

    return change


def _plain_pickle(name: str, protocol: int, *, alone: bool = True) -> Change:
    """A bare pickle under the name of something else."""

    def change(folder: Path) -> None:
        if alone:
            (folder / "model.safetensors").unlink(missing_ok=True)
        call = Call(os.system, _command(folder))
        (folder / name).write_bytes(pickle.dumps(call, protocol=protocol))

    return change


def _legacy(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    state = {"a": Call(os.system, _command(folder))}
    torch.save(state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)


def _whole_module(folder: Path) -> None:
    """A module instead of its weights: its class would be imported."""
    (folder / "model.safetensors").unlink()
    torch.save(torch.nn.Linear(2, 2), folder / "pytorch_model.bin")


def _stored_zip(
    folder: Path, entries: Mapping[str, bytes], packed: int = zipfile.ZIP_STORED
) -> None:
    (folder / "model.safetensors").unlink(missing_ok=True)
    with zipfile.ZipFile(folder / "pytorch_model.bin", "w", packed) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


def _acting(folder: Path) -> bytes:
    return pickle.dumps({"a": Call(os.system, _command(folder))}, protocol=2)


def _zip(names: Mapping[str, str], packed: int = zipfile.ZIP_STORED) -> Change:
    """A zip with a pickle that acts under each name of "pickle", and other content."""

    def change(folder: Path) -> None:
        content = {"pickle": _acting(folder), "code": _code(folder).encode(), "bytes": b"3"}
        _stored_zip(folder, {name: content[kind] for name, kind in names.items()}, packed)

    return change


def _zip_behind_zip(folder: Path) -> None:
    """Two archives in one file: readers differ in which list of entries they believe."""
    _zip({"a/data.pkl": "pickle", "a/version": "bytes"})(folder)
    first = (folder / "pytorch_model.bin").read_bytes()
    torch.save({"a": torch.ones(2)}, folder / "pytorch_model.bin")
    (folder / "pytorch_model.bin").write_bytes(first + (folder / "pytorch_model.bin").read_bytes())


def _zip_behind_tensors(folder: Path) -> None:
    """A file that is safetensors from its beginning and a zip from its end."""
    _zip({"a/data.pkl": "pickle"})(folder)
    packed = (folder / "pytorch_model.bin").read_bytes()
    (folder / "pytorch_model.bin").unlink()
    (folder / "model.safetensors").write_bytes(_tensors() + packed)


def _opcodes(code: bytes) -> Change:
    """data.pkl of hand-made opcodes."""

    def change(folder: Path) -> None:
        told = code.replace(b"COMMAND", _command(folder).encode())
        _stored_zip(folder, {"a/data.pkl": told, "a/version": b"3\n", "a/byteorder": b"little"})

    return change


def _objects(folder: Path) -> None:
    """An object array of numpy, which is a pickle."""
    (folder / "model.safetensors").unlink()
    with (folder / "pytorch_model.bin").open("wb") as file:
        np.save(file, np.array([Call(os.system, _command(folder))], dtype=object))


def _script(folder: Path) -> None:
    """A TorchScript archive: a program in a zip."""
    (folder / "model.safetensors").unlink()
    with io.BytesIO() as file:
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), file)
        (folder / "pytorch_model.bin").write_bytes(file.getvalue())


def _tensors(metadata: Mapping[str, str] | None = None) -> bytes:
    from jumok.safetensors_io import serialize

    return serialize({"a": torch.ones(2)}, metadata)


def _header(header: object, rest: bytes = b"") -> Change:
    """model.safetensors with this header."""

    def change(folder: Path) -> None:
        raw = json.dumps(header).encode().replace(b"COMMAND", _command(folder).encode())
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(raw)) + raw + rest)

    return change


def _set(file: str, **values: object) -> Change:
    """Values put into a JSON file of the folder."""

    def change(folder: Path) -> None:
        path = folder / file
        table = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        told = json.dumps(table | values).replace("COMMAND", _command(folder))
        path.write_text(told.replace("OUTSIDE", str(folder.parent / SECRET)), encoding="utf-8")
        (folder / "evil.py").write_text(_code(folder), encoding="utf-8")

    return change


def _write(file: str, text: str) -> Change:
    """An additional file with this text."""

    def change(folder: Path) -> None:
        told = text.replace("CODE", _code(folder)).replace("COMMAND", _command(folder))
        told = told.replace("OUTSIDE", str(folder.parent / SECRET))
        (folder / file).write_text(told, encoding="utf-8")

    return change


def _index(shard: str) -> Change:
    """An index that maps the tensors to this file."""

    def change(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        told = shard.replace("OUTSIDE", str(folder.parent / SECRET))
        index = {"weight_map": {"a": told}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")

    return change


def _link(file: str, target: str) -> Change:
    """A link out of the folder under the name of a file."""

    def change(folder: Path) -> None:
        (folder / file).unlink(missing_ok=True)
        (folder / file).symlink_to(target.replace("OUTSIDE", str(folder.parent / SECRET)))

    return change


def _pipe(file: str) -> Change:
    def change(folder: Path) -> None:
        (folder / file).unlink(missing_ok=True)
        os.mkfifo(folder / file)

    return change


def _tokenizer(part: str, value: object) -> Change:
    """A tokenizer.json with one part replaced."""

    def change(folder: Path) -> None:
        state = json.loads(fuzz_corpus.tokenizers()[1]["tokenizer.json"])
        told = json.dumps(state | {part: value}).replace("OUTSIDE", str(folder.parent / SECRET))
        (folder / "tokenizer.json").write_text(told, encoding="utf-8")

    return change


def _recipe(lines: str) -> Change:
    """A recipe with these lines in its [data] or [model]."""

    def change(folder: Path) -> None:
        text = fuzz_corpus.recipe("classification") + lines
        told = text.replace("COMMAND", _command(folder)).replace("CODE", _code(folder))
        told = told.replace("OUTSIDE", str(folder.parent / SECRET))
        (folder / "recipe.toml").write_text(told, encoding="utf-8")

    return change


_YAML = "!!python/object/apply:os.system ['COMMAND']\n"
_REMOTE = "owner/their-model--modeling_evil.EvilModel"
_JINJA = "{{ cycler.__init__.__globals__.os.system('COMMAND') }}"
_PAGE = "<script>fetch('http://127.0.0.1:9/')</script><img src=x onerror=alert(1)>"
_SYSTEM = b"cposix\nsystem\n"

HF_PAYLOADS: tuple[Payload, ...] = tuple(
    Payload(name, "foreign", change)
    for name, change in (
        *((f"bin, reduce to {name}", _pickled(name)) for name in _calls(Path("folder"))),
        *((f"bin, protocol {n}", _pickled("os.system", n)) for n in (3, 4, 5)),
        *((f"bare pickle as bin, protocol {n}", _plain_pickle("pytorch_model.bin", n))
          for n in range(6)),
        ("bare pickle as safetensors", _plain_pickle("model.safetensors", 4)),
        ("bare pickle as vocab.txt", _plain_pickle("vocab.txt", 0, alone=False)),
        ("bare pickle as spiece.model", _plain_pickle("spiece.model", 2, alone=False)),
        ("bare pickle as config.json", _plain_pickle("config.json", 0, alone=False)),
        ("training_args.bin next to it", _plain_pickle("training_args.bin", 2, alone=False)),
        ("optimizer.pt next to it", _plain_pickle("optimizer.pt", 2, alone=False)),
        ("bin before zips", _legacy),
        ("bin of a whole module", _whole_module),
        ("bin of TorchScript", _script),
        ("bin, deflated", _zip({"a/data.pkl": "pickle"}, zipfile.ZIP_DEFLATED)),
        ("bin, entry leads out", _zip({"../data.pkl": "pickle", "a/data.pkl": "pickle"})),
        ("bin, two pickles", _zip({"a/data.pkl": "pickle", "b/data.pkl": "pickle"})),
        ("bin, code next to it", _zip({"a/data.pkl": "pickle", "a/code/__torch__.py": "code"})),
        ("bin, constants.pkl", _zip({"a/data.pkl": "pickle", "a/constants.pkl": "pickle"})),
        ("bin, zip behind zip", _zip_behind_zip),
        ("safetensors, zip behind", _zip_behind_tensors),
        ("opcodes, GLOBAL and REDUCE", _opcodes(b"\x80\x02" + _SYSTEM + b"(VCOMMAND\ntR.")),
        ("opcodes, INST", _opcodes(b"(VCOMMAND\niposix\nsystem\n.")),
        ("opcodes, OBJ", _opcodes(b"(" + _SYSTEM + b"VCOMMAND\no.")),
        ("opcodes, STACK_GLOBAL", _opcodes(b"\x80\x04Vposix\nVsystem\n\x93(VCOMMAND\ntR.")),
        ("opcodes, BUILD by rebuild", _opcodes(
            b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(VCOMMAND\ntR}b.")),
        ("opcodes, persistent id", _opcodes(b"\x80\x02(VCOMMAND\ntQ.")),
        ("opcodes, extension", _opcodes(b"\x80\x02\x82\x01.")),
        ("numpy with objects as bin", _objects),
        ("safetensors, names that lead out", _header(
            {"../../it-ran/a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(4))),
        ("safetensors, code as metadata", _header(
            {"__metadata__": {"auto_map": "COMMAND", "__reduce__": "COMMAND"}})),
        ("auto_map in config", _set("config.json", auto_map={"AutoModel": "evil.EvilModel"})),
        ("auto_map to elsewhere", _set("config.json", auto_map={"AutoModelForMaskedLM": _REMOTE})),
        ("trust_remote_code in config", _set(
            "config.json", trust_remote_code=True, custom_pipelines={"x": {"impl": "evil.Run"}})),
        ("attention named by path", _set(
            "config.json", _attn_implementation_internal="owner/kernel:run",
            _attn_implementation="OUTSIDE")),
        ("architecture named by path", _set(
            "config.json", architectures=["evil.EvilModel"], model_type="../evil")),
        ("model_type of a module", _set("config.json", model_type="os.system")),
        ("tokeniser's own class", _set(
            "tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.Tok", None]},
            tokenizer_class="EvilTokenizer", trust_remote_code=True)),
        ("chat template", _set("tokenizer_config.json", chat_template=_JINJA)),
        ("file names in tokenizer_config", _set(
            "tokenizer_config.json", vocab_file="OUTSIDE", tokenizer_file="OUTSIDE",
            name_or_path="owner/model", special_tokens_map_file="OUTSIDE")),
        ("adapter_config", _set("adapter_config.json", base_model_name_or_path="OUTSIDE")),
        ("YAML objects next to it", _write("config.yaml", _YAML)),
        ("YAML instead of JSON", _write("config.json", _YAML)),
        ("Python next to it", _write("modeling_evil.py", "CODE")),
        ("conftest and sitecustomize", _write("sitecustomize.py", "CODE")),
        ("module named like torch", _write("torch.py", "CODE")),
        ("pth next to it", _write("evil.pth", "CODE")),
        ("index leads up", _index("../secret")),
        ("index leads to root", _index("OUTSIDE")),
        ("index with backslashes", _index("..\\secret.safetensors")),
        ("index to a device", _index("/dev/zero")),
        ("weights are a pipe", _pipe("model.safetensors")),
        ("weights are a device", _link("model.safetensors", "/dev/zero")),
        ("vocabulary is a device", _link("vocab.txt", "/dev/zero")),
        ("Python processor in tokenizer.json", _tokenizer(
            "pre_tokenizer", {"type": "Custom", "module": "os", "name": "system"})),
        ("pattern without end in tokenizer.json", _tokenizer(
            "pre_tokenizer", {"type": "Split", "pattern": {"Regex": "(a+)+$"},
                              "behavior": "Removed", "invert": False})),
        ("path in tokenizer.json", _tokenizer(
            "model", {"type": "WordPiece", "vocab": "OUTSIDE", "unk_token": "[UNK]"})),
    )
)  # fmt: skip

JUMOK_PAYLOADS: tuple[Payload, ...] = (
    Payload("recipe, model.init from elsewhere", "recipe", _recipe('[model]\ninit = "OUTSIDE"\n')),
    Payload("recipe, code as values", "recipe", _recipe('[data]\ntext = "$(COMMAND)"\n')),
    Payload("recipe, objects", "recipe", _recipe("[python]\nobject = \"os.system('COMMAND')\"\n")),
    Payload("run, recipe names code", "run", _recipe("[decoding]\npattern = \"CODE\"\n")),
    Payload("run, pickle as weights", "run", _plain_pickle("model.safetensors", 4)),
    Payload("run, pickle as vocabulary", "run", _plain_pickle("vocabulary.model", 2, alone=False)),
    Payload("run, labels with HTML", "run", _set("config.json", labels=["no", _PAGE])),
    Payload("run, origin leads out", "run", _set("config.json", origin="OUTSIDE", task="../x")),
    Payload("trace, pickle", "trace", _plain_pickle("trace.safetensors", 4)),
    Payload("trace, HTML in tokens", "trace", lambda folder: _with_html(folder)),
    Payload("rows, formulas and HTML", "table", _write(
        "rows.tsv", f"text\tlabel\n=cmd|' /C calc'!A0\t{_PAGE}\n{_PAGE}\tno\n")),
    Payload("rows, pickle", "table", _plain_pickle("rows.tsv", 0)),
)  # fmt: skip

PAYLOADS: tuple[Payload, ...] = (*HF_PAYLOADS, *JUMOK_PAYLOADS)


def _with_html(folder: Path) -> None:
    """A trace with HTML in its title and pieces."""
    path = folder / "trace.safetensors"
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    told = json.loads(header["__metadata__"]["trace"])
    told["title"] = _PAGE
    for sequences in told["sides"].values():
        for tokens in sequences:
            tokens["pieces"] = [_PAGE for _ in tokens["pieces"]]
    header["__metadata__"]["trace"] = json.dumps(told)
    raw = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + data[8 + length :])


def lay_out(base: str, folder: Path) -> None:
    """A valid folder, before the payload changes it."""
    folder.mkdir(parents=True)
    if base == "foreign":
        _write_bert(folder)
    elif base == "run":
        folder.rmdir()
        fuzz_corpus.write_run(folder)
    elif base == "trace":
        for name, content in fuzz_corpus.traces()[0].items():
            (folder / name).write_bytes(content)
    (folder.parent / SECRET).write_bytes(_tensors())


def _write_bert(folder: Path) -> None:
    """A BERT of 20 pieces with all weights."""
    from jumok.pretrained.architecture import parse_config
    from jumok.pretrained.state_dict import hf_state_dict
    from jumok.safetensors_io import serialize
    from tests.pretrained.tensor_names import hf_tensor_names

    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmno"]
    config = dict(fuzz_corpus.CONFIGS["bert"])
    described = parse_config(config, [])
    model = described.build()
    tensors = hf_state_dict(model, described, hf_tensor_names(model, described), {})
    (folder / "model.safetensors").write_bytes(serialize(tensors))
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
