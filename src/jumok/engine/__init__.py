"""Inference of text models with numpy, the tokenizer and the C++ kernel, without PyTorch.

    from jumok.engine import load

    model = load("ko-small-vectors")
    model.encode(["비가 옵니다", "비가 와요"])

`jumok predict`, `embed` and `search` use it for the models that it supports, and `jumok.load` for
the others. Trained classifiers of texts and pairs, several labels, regression and vectors are
supported, on the CPU, in float32 and int8.
"""

from jumok.engine.model import EngineModel, find, load

__all__ = ["EngineModel", "find", "load"]
