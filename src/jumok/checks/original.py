"""The original: the folder a model was imported from, opened by transformers."""

import inspect
from pathlib import Path

import torch
from torch import Tensor

from jumok.checks.invariance import NotApplicable
from jumok.checks.target import Answers, Sample, Subject
from jumok.models import TextClassifier

WEIGHTS = ("model*.safetensors", "pytorch_model*.bin")


@torch.inference_mode()
def opened_by_transformers(subject: Subject) -> Answers:
    """Each sample by itself, asked of the class that the folder's config names, in float32."""
    origin = subject.loaded.origin
    if origin is None:
        raise NotApplicable("the model was trained here; there is no other original")
    if not _has_weights(origin.folder):
        raise NotApplicable("of the original only its config was kept; check its own folder")
    try:
        import transformers
    except ImportError:
        raise NotApplicable(
            'transformers is not installed; pip install "jumok[hf]" transformers'
        ) from None
    made = getattr(transformers, origin.architecture)
    theirs = made.from_pretrained(origin.folder, local_files_only=True, dtype=torch.float32)
    theirs = theirs.to(subject.loaded.device).eval()
    known = inspect.signature(theirs.forward).parameters

    def answer(sample: Sample) -> Tensor:
        given = {
            "input_ids": sample.ids,
            "token_type_ids": sample.segments,
            "decoder_input_ids": sample.target,
        }
        rows = {
            name: ids[None].to(subject.loaded.device)
            for name, ids in given.items()
            if ids is not None and name in known
        }
        said = theirs(**rows)
        answers: Tensor = said.logits if "logits" in said else said.last_hidden_state
        answers = answers[0].float().cpu()  # (n, V), (L,), or (n,) of one output a token
        one_each = answers.ndim == 1 and not isinstance(subject.loaded.model, TextClassifier)
        return answers[:, None] if one_each else answers

    return [answer(sample) for sample in subject.samples]


def _has_weights(folder: Path) -> bool:
    return any(found for pattern in WEIGHTS for found in folder.glob(pattern))
