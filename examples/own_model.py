"""A model of your own, in one file: a convolutional classifier instead of a Transformer.

    python examples/own_model.py nsmc runs/cnn
    JUMOK_EXTENSIONS=examples/own_model.py jumok sweep nsmc model.architecture=transformer,CNN

A map of windows of some tokens, the maximum of each feature over the text, a linear layer (Kim
2014, "Convolutional Neural Networks for Sentence Classification", section 2). `jumok.train` makes
it of the table [model] and the number of outputs; `forward` takes ids and a mask and returns the
logits. Data, training, checkpoints, evaluation and predictions are those of the task. Another
program imports this file, or passes the class: jumok.load("runs/cnn", model=CNN).
"""

import sys

import torch
from torch import Tensor, nn

import jumok
from jumok.registry import register
from jumok.tasks.recipe.tables import ModelConfig


@register("jumok.models", "CNN")  # for commands; `model=CNN` does the same
class CNN(nn.Module):
    """Embeddings, windows of 2, 3 and 4 tokens, their maxima, a linear layer."""

    def __init__(self, config: ModelConfig, n_outputs: int) -> None:
        super().__init__()
        width = config.d_model
        self.embedding = nn.Embedding(config.vocabulary_size, width)
        self.windows = nn.ModuleList(
            nn.Conv1d(width, width, n, padding=n - 1, bias=False) for n in (2, 3, 4)
        )
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(3 * width, n_outputs)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """ids (B, T) int64, mask (B, T) bool, True = real token -> logits (B, N)."""
        x = self.embedding(ids) * mask[..., None]  # (B, T, D); padding is 0, as beyond the text
        maps = [window(x.mT).relu().amax(-1) for window in self.windows]  # 3 x (B, D)
        return self.output(self.dropout(torch.cat(maps, -1)))


if __name__ == "__main__":
    run = jumok.train(sys.argv[1], model=CNN, out=sys.argv[2])
    print(run.results["accuracy"], run.predict("정말 재미있어요").label)
