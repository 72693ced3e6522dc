"""Run an exported graph in onnxruntime, alone or inside a pipeline.

Shapes: B texts, T tokens, L labels, V vocabulary, D model width.
"""

from collections.abc import Callable
from copy import copy
from pathlib import Path

import torch
from torch import Tensor, nn

from jumok.formats.onnx_graph import GRAPH
from jumok.models import MaskedLanguageModel
from jumok.nn.hooks import shared_copy
from jumok.tasks.pipeline.pipeline import Pipeline

LogitsFn = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""(input_ids, attention_mask, token_type_ids), each (B, T), -> model outputs."""


class OnnxSession:
    """A graph as a function, on the CPU, with as many threads as torch has."""

    def __init__(self, path: Path) -> None:
        from onnxruntime import InferenceSession, SessionOptions

        options = SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3  # errors
        self._session = InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._inputs = [each.name for each in self._session.get_inputs()]

    def __call__(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> Tensor:
        """Integers (B, T) -> float32 (B, L), (B, T, L), (B, T, V), or (B, T, D) without a head."""
        inputs = {
            "input_ids": input_ids,
            "attention_mask": torch.ones_like(input_ids)
            if attention_mask is None
            else attention_mask,
            "token_type_ids": torch.zeros_like(input_ids)
            if token_type_ids is None
            else token_type_ids,
        }
        (found,) = self._session.run(
            None, {name: inputs[name].long().cpu().numpy() for name in self._inputs}
        )
        return torch.from_numpy(found)


def exported_logits(folder: Path) -> OnnxSession:
    """The model in a folder of `jumok export --to onnx`; takes the inputs of `Pipeline.logits`."""
    return OnnxSession(folder / GRAPH)


def with_logits_from(pipeline: Pipeline, logits_fn: LogitsFn) -> Pipeline:
    """A pipeline whose model is replaced by a session, to be scored like the model itself."""

    def forward(
        ids: Tensor,
        mask: Tensor | None = None,
        *,
        positions: Tensor | None = None,  # follow from the mask
        segments: Tensor | None = None,
    ) -> Tensor:
        return logits_fn(ids, torch.ones_like(ids) if mask is None else mask, segments)

    exported = copy(pipeline)
    exported.model = shared_copy(pipeline.model)
    module: nn.Module = exported.model
    if isinstance(exported.model, MaskedLanguageModel):  # applies its head at masked positions only
        exported.model.transform, exported.model.output = nn.Sequential(), nn.Identity()  # type: ignore[assignment]
        module = exported.model.encoder
    module.forward = forward
    return exported
