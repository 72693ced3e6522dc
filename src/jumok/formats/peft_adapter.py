"""LoRA adapters of PEFT: merge one into the checkpoint that it was trained from.

adapter_config.json names the checkpoint, the rank and alpha; adapter_model.safetensors holds A and
B of each map as `base_model.model.NAME.lora_A.weight`, and whole tensors of the head. The merged
weight is W + (alpha / r) B A, as `nn.lora` computes it.
"""

import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from jumok.atomic_io import write_atomically
from jumok.errors import Message, ModelFileError
from jumok.foreign_keys import KeyTable
from jumok.pretrained.architecture import parse_config
from jumok.pretrained.checkpoint import HFCheckpoint, open_checkpoint
from jumok.pretrained.config_reader import ConfigReader
from jumok.pretrained.family import HeadKind
from jumok.pretrained.hub import CONFIG_FILES
from jumok.pretrained.sentence_encoding import read_weights
from jumok.safe_json import read_json
from jumok.safetensors_io import serialize

ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
OLD_WEIGHTS = "adapter_model.bin"  # of PEFT before 0.6
PREFIX = "base_model.model."
HEAD_OF_TASK: Mapping[str, HeadKind] = {
    "SEQ_CLS": "text_classifier",
    "TOKEN_CLS": "token_classifier",
    "CAUSAL_LM": "language_model",
    "SEQ_2_SEQ_LM": "encoder_decoder",
}
KEYS = KeyTable(
    read={
        "base_model_name_or_path",
        "ensure_weight_tying",
        "fan_in_fan_out",
        "lora_alpha",
        "peft_type",
        "task_type",
        "use_rslora",
    },
    without_effect={
        # in the names and shapes of the tensors
        *("r", "rank_pattern", "target_modules", "exclude_modules", "target_parameters"),
        *("layers_to_transform", "layers_pattern", "modules_to_save"),
        # of training
        *("inference_mode", "lora_dropout", "megatron_config", "megatron_core"),
        # of an initialization; those that change the base are refused by init_lora_weights
        *("eva_config", "corda_config", "lora_ga_config", "loftq_config"),
        # of layers with GPTQ weights only, whose lora_A has another shape
        *("use_qalora", "qalora_group_size"),
        # where it comes from; the base is given as a folder
        *("auto_mapping", "peft_version", "revision"),
    },
    refused={
        # only these leave the base as it is: PiSSA, OLoRA, CorDA, LoftQ and LoRA-GA subtract their
        # first B A from it
        "init_lora_weights": (True, False, "gaussian", "eva", "orthogonal", "mica"),
        "alora_invocation_tokens": (),  # acts only after these tokens: cannot be merged
        "alpha_pattern": ({},),  # an alpha for each layer
        "arrow_config": (),  # chooses among several adapters
        "bias": ("none",),  # changes the biases of the base
        "kasa_config": (),  # a diagonal between A and B
        "layer_replication": (),  # more layers than the base has
        "lora_bias": (False,),  # a bias next to B
        "monteclora_config": (),  # samples of A and B
        "trainable_token_indices": (),  # rows of the embedding
        "use_bdlora": (False,),  # block-diagonal A or B
        "use_dora": (False,),  # learned norms of the weight
        "velora_config": (),  # another product with A
    },
)


@dataclass(frozen=True)
class Adapter:
    """The files of an adapter."""

    folder: Path
    config: Mapping[str, Any]
    changes: Mapping[str, tuple[Tensor, Tensor]]  # A (r, D) and B (E, r) of the map NAME
    replaced: Mapping[str, Tensor]  # tensors of the head by their names

    @property
    def base(self) -> str:
        """The folder or name of the checkpoint that it changes."""
        return str(self.config.get("base_model_name_or_path") or "")

    def change(self, name: str) -> Tensor:
        """(alpha / r) B A of a map, in the layout of its stored weight, float32."""
        a, b = (tensor.float() for tensor in self.changes[name])
        rank = len(a)
        divisor = math.sqrt(rank) if self.config.get("use_rslora") else rank
        change = float(self.config["lora_alpha"]) / divisor * (b @ a)
        return change.T if self.config.get("fan_in_fan_out") else change


class AdapterConverter:
    """A folder of PEFT with a LoRA adapter: merged into the checkpoint that it changes."""

    def accepts(self, path: Path) -> bool:
        """Whether a folder holds an adapter and no checkpoint."""
        return is_adapter(path)

    def base(self, path: Path) -> str | None:
        """The checkpoint that the adapter names, "" if none."""
        return read_adapter(path).base

    def write(self, path: Path, base: Path | None, out: Path) -> None:
        """Write the merged checkpoint. Raises InputError for an adapter of another one."""
        assert base is not None
        merge_adapter(read_adapter(path), open_checkpoint(base), out)


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter and no checkpoint."""
    return (folder / ADAPTER_CONFIG).is_file() and not (folder / "config.json").is_file()


def read_adapter(folder: Path) -> Adapter:
    """Read the files of an adapter. Raises InputError for one that is not plain LoRA."""
    path = folder / ADAPTER_CONFIG
    config = read_json(path)
    if config.get("peft_type") != "LORA":
        raise ModelFileError(
            "pretrained.unsupported_peft_type",
            "{path}: peft_type must be LORA, got {get}; other adapters are not supported",
            path=path,
            get=str(config.get("peft_type"))[:40],
        )
    advice = Message(
        "pretrained.merge_with_peft",
        "merge such an adapter with PEFT (merge_and_unload) and import the result",
    )
    KEYS.check(config, path, advice)
    for key in ("ensure_weight_tying", "fan_in_fan_out", "use_rslora"):
        if not isinstance(config.get(key), bool | None):
            raise ModelFileError(
                "pretrained.adapter_not_a_boolean",
                "{path}: {key} must be true or false, got {value}",
                path=path,
                key=key,
                value=str(config[key])[:40],
            )
    alpha = config.get("lora_alpha")
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not math.isfinite(alpha):
        raise ModelFileError(
            "pretrained.lora_alpha",
            "{path}: lora_alpha must be a number, got {alpha}",
            path=path,
            alpha=str(alpha)[:40],
        )
    halves: dict[str, dict[str, Tensor]] = {}
    replaced: dict[str, Tensor] = {}
    for key, tensor in read_weights(folder / ADAPTER_WEIGHTS, folder / OLD_WEIGHTS).items():
        name, lora, last = key.removeprefix(PREFIX).rpartition(".lora_")
        if not key.startswith(PREFIX) or (lora and last not in ("A.weight", "B.weight")):
            raise ModelFileError(
                "pretrained.adapter_tensor_name",
                "{folder}: tensors must be {prefix}NAME.lora_A.weight, lora_B.weight, or of a "
                "head, got {ascii}",
                folder=folder / ADAPTER_WEIGHTS,
                prefix=PREFIX,
                ascii=ascii(key)[:80],
            )
        name_of_weight = key.removeprefix(PREFIX).replace(".base_layer.", ".")
        if lora:
            halves.setdefault(name, {})[last[0]] = tensor
        else:
            replaced[name_of_weight] = tensor
    changes = {name: _both(folder, name, pair) for name, pair in halves.items()}
    return Adapter(folder, config, changes, replaced)


def merge_adapter(adapter: Adapter, base: HFCheckpoint, out: Path) -> None:
    """Write the checkpoint with the merged weights, its config and tokenizer into a folder.

    Raises InputError for an adapter of another checkpoint.
    """
    config = _merged_config(adapter, base)
    tensors = dict(base.tensors)
    if config.get("architectures") != base.config.get("architectures"):  # without the other head
        prefix = parse_config(config, ()).family.prefix
        backbone = {name: t for name, t in tensors.items() if name.startswith(prefix)}
        tensors = backbone or tensors
    _untie(adapter, config, tensors)
    for name, tensor in adapter.replaced.items():
        found = [stored for stored in _spellings(name, config) if stored in tensors]
        tensors[found[0] if found else name] = tensor
    _resize(adapter, config, tensors)
    for name in adapter.changes:
        stored = _stored_name(adapter, f"{name}.weight", tensors, config)
        change = adapter.change(name)
        weight = tensors[stored]
        if weight.shape != change.shape:
            raise ModelFileError(
                "pretrained.adapter_shape",
                "{folder}: the change of {name} must be {shape} as in {folder_2}, got {shape_2}; "
                "name the checkpoint that it was trained from",
                folder=adapter.folder,
                name=name,
                shape=tuple(weight.shape),
                folder_2=base.folder,
                shape_2=tuple(change.shape),
            )
        tensors[stored] = weight.float() + change
    for folder in (base.folder, adapter.folder):
        for file in CONFIG_FILES:
            if (folder / file).is_file():
                shutil.copyfile(folder / file, out / file)
    write_atomically(out / "config.json", json.dumps(config, ensure_ascii=False).encode())
    copies = {name: tensor.contiguous().clone() for name, tensor in tensors.items()}
    write_atomically(out / "model.safetensors", serialize(copies, {"format": "pt"}))


def _resize(adapter: Adapter, config: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Set `vocab_size` to the rows of an embedding that was saved with added tokens.

    Raises InputError if the output map of the checkpoint has other rows.
    """
    head = parse_config({**config, "tie_word_embeddings": True}, ()).head  # names both
    for output, embedding in head.aliases.items() if head.kind == "language_model" else ():
        names = _spellings(embedding, config)
        saved = [adapter.replaced[name] for name in names if name in adapter.replaced]
        if not saved or len(saved[0]) == config.get("vocab_size"):
            continue
        config["vocab_size"] = len(saved[0])
        if output in tensors and len(tensors[output]) != len(saved[0]):
            raise ModelFileError(
                "pretrained.adapter_vocabulary",
                "{folder}: {output} must have the {rows} rows of the embedding in the adapter, "
                "got {found}; save both with PEFT (save_embedding_layers=True)",
                folder=adapter.folder,
                output=output,
                rows=len(saved[0]),
                found=len(tensors[output]),
            )


def _untie(adapter: Adapter, config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Store the output map of a language model whose embedding, or output map alone, is replaced.

    PEFT replaces one module and leaves the other as it is, unless `ensure_weight_tying` is true.
    Raises InputError for other tied tensors.
    """
    architecture = parse_config(config, list(tensors))
    replaced = {name for given in adapter.replaced for name in _spellings(given, config)}
    changed = {name for given in adapter.changes for name in _spellings(f"{given}.weight", config)}
    for output, embedding in architecture.head.aliases.items():
        if not {output, embedding} & (replaced | changed) or output in tensors:
            continue
        if {output, embedding} <= replaced or adapter.config.get("ensure_weight_tying"):
            continue
        if embedding in replaced and not _is_module(embedding, adapter):
            continue  # saved with added tokens: loaded into the tied table itself
        tied_name = output if output in replaced | changed else embedding
        if architecture.head.kind != "language_model":
            raise ModelFileError(
                "pretrained.adapter_tied",
                "{path}: {name} is tied in the checkpoint, and PEFT changes one of the tied "
                "tensors only; merge such an adapter with PEFT (merge_and_unload) and import the "
                "result",
                path=adapter.folder / ADAPTER_CONFIG,
                name=tied_name,
            )
        stored = next(name for name in _spellings(embedding, config) if name in tensors)
        tensors[output] = tensors[stored]
        config["tie_word_embeddings"] = False


def _is_module(name: str, adapter: Adapter) -> bool:
    """Whether PEFT has a copy of the module of this weight, not the module of the checkpoint."""
    module = f".{name.removesuffix('.weight')}"
    saved = adapter.config.get("modules_to_save") or ()
    return any(module.endswith(f".{each}") for each in saved)


def _both(folder: Path, name: str, pair: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """A and B of a map; InputError for one without the other, or of different ranks."""
    if set(pair) != {"A", "B"}:
        raise ModelFileError(
            "pretrained.lora_half_missing",
            "{folder}: {name} must have lora_A and lora_B",
            folder=folder / ADAPTER_WEIGHTS,
            name=name,
        )
    a, b = pair["A"], pair["B"]
    if a.ndim != 2 or b.ndim != 2 or len(a) != b.shape[1] or not len(a):
        raise ModelFileError(
            "pretrained.lora_ranks_differ",
            "{folder}: lora_A (r, inputs) and lora_B (outputs, r) of {name} must have the same "
            "r, got {shape} and {shape_2}",
            folder=folder / ADAPTER_WEIGHTS,
            name=name,
            shape=tuple(a.shape),
            shape_2=tuple(b.shape),
        )
    return a, b


def _merged_config(adapter: Adapter, base: HFCheckpoint) -> dict[str, Any]:
    """The config of the checkpoint with the class, and the number of labels, of the adapter."""
    config = dict(base.config)
    task = adapter.config.get("task_type")
    kind = HEAD_OF_TASK.get(str(task))
    if kind is None:
        return config
    architecture = parse_config(config, list(base.tensors))
    if architecture.head.kind == kind:
        return config
    heads = architecture.family.heads(ConfigReader(config))
    names = [name for name, head in heads.items() if head.kind == kind and head.has_task]
    if not names:
        raise ModelFileError(
            "pretrained.task_type_not_supported",
            "{folder}: task_type {task} is not supported for {model_type}",
            folder=adapter.folder / ADAPTER_CONFIG,
            task=task,
            model_type=architecture.family.model_type,
        )
    config["architectures"] = names[:1]
    outputs = [rule.hf_name for rule in heads[names[0]].rules if rule.jumok_names == ("output",)]
    rows = [
        len(tensor)
        for name, tensor in adapter.replaced.items()
        if name.removesuffix(".weight") in outputs
    ]
    labels = config.get("id2label")
    if rows and (not isinstance(labels, dict) or len(labels) != rows[0]):
        config["id2label"] = {str(i): f"LABEL_{i}" for i in range(rows[0])}
        config["label2id"] = {f"LABEL_{i}": i for i in range(rows[0])}
    return config


def _spellings(name: str, config: Mapping[str, Any]) -> tuple[str, str]:
    """The name of a tensor with and without the prefix that a backbone alone does not have."""
    prefix = parse_config(config, ()).family.prefix
    return name, name.removeprefix(prefix)


def _stored_name(
    adapter: Adapter, name: str, tensors: Mapping[str, Tensor], config: Mapping[str, Any]
) -> str:
    for stored in _spellings(name, config):
        if stored in tensors:
            return stored
    raise ModelFileError(
        "pretrained.adapter_of_unknown_tensor",
        "{folder}: {name} must be a tensor of its checkpoint {base}, which has none of that "
        "name; name the checkpoint that it was trained from",
        folder=adapter.folder,
        name=name[:120],
        base=adapter.base[:120],
    )


def save_adapter(
    folder: Path,
    base: str,
    task: str,
    settings: Mapping[str, Any],
    changes: Mapping[str, tuple[Tensor, Tensor]],
    head: Mapping[str, Tensor],
) -> None:
    """Write the two files of an adapter in PEFT's format; `settings` has r and lora_alpha."""
    saved = sorted({name.rpartition(".")[0] for name in head})
    config = {
        "base_model_name_or_path": base,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "lora_dropout": 0.0,
        "modules_to_save": saved or None,
        "peft_type": "LORA",
        "target_modules": sorted(changes),
        "task_type": task,
        **settings,
    }
    write_atomically(
        folder / ADAPTER_CONFIG, (json.dumps(config, ensure_ascii=False, indent=2) + "\n").encode()
    )
    tensors = {f"{PREFIX}{name}": tensor for name, tensor in head.items()}
    for name, (a, b) in changes.items():
        tensors |= {f"{PREFIX}{name}.lora_A.weight": a, f"{PREFIX}{name}.lora_B.weight": b}
    copies = {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}
    write_atomically(folder / ADAPTER_WEIGHTS, serialize(copies, {"format": "pt"}))
