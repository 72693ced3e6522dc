"""Variants of a computation: compiled, saved and loaded, with hooks, in transformers."""

import inspect
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from jumok.checks.invariance import NotApplicable
from jumok.checks.target import CheckTarget, Outputs, Sample, batched, padded
from jumok.errors import InputError, JumokError
from jumok.export.huggingface import transformers_class
from jumok.extras import missing_dependency
from jumok.models import PairClassifier, TextClassifier
from jumok.models.backbones import backbones
from jumok.native.build import KernelError, find_compiler
from jumok.nn.hooks import record, shared_copy
from jumok.tasks.pipeline.text_vectors import pool_texts
from jumok.tasks.runs.load import load
from jumok.tasks.runs.run import Run

WEIGHT_FILES = ("model*.safetensors", "pytorch_model*.bin")


@dataclass(frozen=True)
class Compiled:
    """One batch, through torch.compile; a copy of the model that shares its weights."""

    backend: str = "inductor"  # generates C++ or Triton

    def __call__(self, target: CheckTarget) -> Outputs:
        """NotApplicable without a C++ compiler; JumokError if compiling fails."""
        if self.backend == "inductor" and target.pipeline.device.type == "cpu":
            try:
                find_compiler()
            except KernelError:
                raise NotApplicable(
                    "check.compile_needs_compiler",
                    "torch.compile needs a C++ compiler; install g++",
                ) from None
        model = shared_copy(target.pipeline.model)
        for module in backbones(model).values():
            module.compile(backend=self.backend)
        try:
            return batched(target.with_model(model))
        except RuntimeError as error:
            why = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise JumokError(
                "check.compile_failed", "torch.compile failed ({why})", why=why
            ) from error


def saved_and_loaded(target: CheckTarget) -> Outputs:
    """One batch, by a model that was saved as a run and loaded again."""
    pipeline = target.pipeline
    with torch.device("meta"):
        expected = pipeline.task.build_model(pipeline.recipe.model, pipeline.labels)
    if type(expected) is not type(pipeline.model):
        name = type(pipeline.model).__name__
        raise NotApplicable(
            "check.no_task_for_model",
            "runs are saved with their task, and no task has the class {name}",
            name=name,
        )
    with tempfile.TemporaryDirectory(prefix="jumok-check-") as folder:
        run = Run(Path(folder))
        run.write_text(run.recipe_path, pipeline.recipe.to_toml())
        checksums, recipe = {"vocabulary": None}, pipeline.recipe  # the model alone
        run.save_model(pipeline.model, recipe.task, recipe.model, pipeline.labels, checksums)
        model = load(folder, str(pipeline.device)).model.train(pipeline.model.training)
    return batched(target.with_model(model))


def with_hooks(target: CheckTarget) -> Outputs:
    """One batch, with all attention weights recorded by hooks on a copy of the model."""
    model = shared_copy(target.pipeline.model)
    with record(model) as recorded:
        outputs = batched(target.with_model(model))
    if not recorded:
        raise JumokError(
            "check.no_hook_point",
            "no hook point recorded attention weights; add one to the attention",
        )
    return outputs


@torch.inference_mode()
def transformers_outputs(target: CheckTarget) -> Outputs:
    """Each sample alone, by transformers with the imported checkpoint, in float32."""
    origin, device = target.pipeline.origin, target.pipeline.device
    if origin is None:
        raise NotApplicable("check.model_not_imported", "the model was not imported")
    if not any(found for pattern in WEIGHT_FILES for found in origin.folder.glob(pattern)):
        raise NotApplicable(
            "check.original_folder_needed",
            "the imported folder keeps only the config; check the original folder",
        )
    try:
        hf_class = transformers_class(origin.architecture)
    except ImportError:
        raise NotApplicable(missing_dependency("this check", "transformers").message) from None
    except InputError as reason:
        raise NotApplicable(reason.message) from None
    hf_model = hf_class.from_pretrained(origin.folder, local_files_only=True, dtype=torch.float32)
    hf_model = hf_model.to(device).eval()
    parameters = inspect.signature(hf_model.forward).parameters

    def compute(sample: Sample) -> Tensor:
        inputs = {
            "input_ids": sample.ids,
            "token_type_ids": sample.segments,
            "decoder_input_ids": sample.target,
        }
        batch = {
            name: ids[None].to(device)
            for name, ids in inputs.items()
            if ids is not None and name in parameters
        }
        found = hf_model(**batch)
        outputs: Tensor = found.logits if "logits" in found else found.last_hidden_state
        outputs = outputs[0].float().cpu()  # (n, V), (L,), or (n,) with one output per token
        per_token = outputs.ndim == 1 and not isinstance(
            target.pipeline.model, TextClassifier | PairClassifier
        )
        return outputs[:, None] if per_token else outputs

    return [compute(sample) for sample in target.samples]


def vectors(target: CheckTarget) -> Outputs:
    """The vectors (D,) of the samples in one batch, by the modules of sentence-transformers."""
    encoding, pipeline = target.pipeline.sentence_encoding, target.pipeline
    if encoding is None:
        raise NotApplicable(
            "check.no_modules", "the model has no modules.json of sentence-transformers"
        )
    ids, mask = padded([sample.ids for sample in target.samples], target.padding_id)
    ids, mask = ids.to(pipeline.device), mask.to(pipeline.device)
    x = pool_texts(pipeline.hidden_states(ids, mask), mask, encoding.pooling)  # (B, D)
    for step in encoding.steps:
        x = step(x)
    return list(x.float().cpu())


def vectors_alone(target: CheckTarget) -> Outputs:
    """The vectors of the samples, each computed alone."""
    return [vectors(target.with_samples([sample]))[0] for sample in target.samples]
