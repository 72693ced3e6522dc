"""`--to peft`: the LoRA adapter of a run, for PeftModel.from_pretrained."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from jumok.errors import InputError, Message
from jumok.export.huggingface import batches, convert_pipeline, paired_outputs
from jumok.export.report import relative_difference
from jumok.export.samples import Samples
from jumok.export.target import Target
from jumok.formats.peft_adapter import HEAD_OF_TASK, save_adapter
from jumok.models.weights import named_weights
from jumok.pretrained.hub import is_hf_folder
from jumok.safetensors_io import read_tensors
from jumok.shipped import resolve_model
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.run import ADAPTER

_BACKBONES = ("encoder.", "decoder.")


class Peft(Target):
    """adapter_config.json and adapter_model.safetensors, for the checkpoint of `model.init`."""

    libraries = ("transformers", "peft")

    def unsupported_reason(self, pipeline: Pipeline) -> Message | None:
        """Why this model has no adapter for PEFT; None if it has one."""
        recipe = pipeline.recipe
        path = _adapter_path(pipeline)
        if not recipe.training.lora.rank or path is None or not path.is_file():
            return Message(
                "export.run_without_lora",
                "an adapter needs a run that was trained with training.lora",
            )
        if not is_hf_folder(_base(pipeline)):
            return Message(
                "export.adapter_of_a_run",
                "an adapter for PEFT needs a Hugging Face folder as model.init, got {init}",
                init=recipe.model.init,
            )
        try:
            names = convert_pipeline(pipeline).names
        except InputError as error:
            return error.message
        maps = {name.rpartition(".")[0] for name in read_tensors(path)}
        joined = sorted(name for name in maps if f"{name}.weight" not in names)
        if joined:
            return Message(
                "export.joined_maps",
                "transformers joins {name} with other maps, which PEFT changes as one",
                name=joined[0],
            )
        return None

    def convert(self, pipeline: Pipeline, folder: Path) -> None:
        """Write the two files."""
        path, lora = _adapter_path(pipeline), pipeline.recipe.training.lora
        assert path is not None
        names = convert_pipeline(pipeline).names
        stored = read_tensors(path)
        changes = {
            names[f"{name}.weight"].removesuffix(".weight"): _both(stored, name)
            for name in sorted({key.rpartition(".")[0] for key in stored})
        }
        head = {
            names[name]: weight
            for name, weight in named_weights(pipeline.model).items()
            if not name.startswith(_BACKBONES) and name in names
        }
        settings = {"r": lora.rank, "lora_alpha": lora.scaling * lora.rank}
        save_adapter(folder, str(_base(pipeline)), _task(pipeline), settings, changes, head)

    def difference(self, pipeline: Pipeline, folder: Path, samples: Samples) -> float:
        """The difference of the logits of padded batches, over real tokens."""
        model = _load(pipeline, folder)
        padded = batches(pipeline, samples.rows)
        return relative_difference(paired_outputs(pipeline, model, *batch) for batch in padded)

    def usage_example(self, pipeline: Pipeline) -> str:
        """Python code with PEFT."""
        name = convert_pipeline(pipeline).config["architectures"][0]
        return "\n".join(
            [
                "from peft import PeftModel",
                f"from transformers import {name}",
                "",
                f"base = {name}.from_pretrained({str(_base(pipeline))!r}, "
                f"num_labels={len(pipeline.labels) or 1})",
                'model = PeftModel.from_pretrained(base, ".")',
            ]
        )


def _load(pipeline: Pipeline, folder: Path) -> Any:
    """The checkpoint with the adapter, as PEFT opens both."""
    import peft
    import transformers

    config = convert_pipeline(pipeline).config
    base = getattr(transformers, config["architectures"][0]).from_pretrained(
        _base(pipeline), dtype=torch.float32, num_labels=len(pipeline.labels) or 1
    )
    return peft.PeftModel.from_pretrained(base, folder).eval()


def _adapter_path(pipeline: Pipeline) -> Path | None:
    weights = pipeline.weights_path
    return None if weights is None else weights.parent / ADAPTER


def _base(pipeline: Pipeline) -> Path:
    return resolve_model(pipeline.recipe.model.init)


def _both(tensors: Mapping[str, Tensor], name: str) -> tuple[Tensor, Tensor]:
    return tensors[f"{name}.lora_a"], tensors[f"{name}.lora_b"]


def _task(pipeline: Pipeline) -> str:
    kinds = {kind: task for task, kind in HEAD_OF_TASK.items()}
    assert pipeline.task.head is not None  # of every task that trains adapters of a checkpoint
    return kinds[pipeline.task.head]
