"""A loss of your own, in one file: a symmetric contrastive loss for vectors of texts.

    python examples/own_loss.py PAIRS.tsv RUN  (with the columns text and pair)

The text of a pair is found among all texts of the batch by its second text, and the other way round
(InfoNCE in both directions: Radford et al. 2021, "Learning Transferable Visual Models From Natural
Language Supervision", figure 3); the loss of the task `similarity` has one direction. A loss is a
sum over the pairs: the trainer divides it. A distribution registers it with an entry point:

    [project.entry-points."jumok.losses"]
    symmetric = "own_loss:symmetric"
"""

import sys

import torch.nn.functional as F
from torch import Tensor

import jumok
from jumok.registry import register
from jumok.tasks.recipe.recipe import recipe_of_file

TEMPERATURE = 0.05


@register("jumok.losses", "symmetric")
def symmetric(u: Tensor, v: Tensor, targets: Tensor) -> Tensor:
    """Unit vectors of both texts, 2 x (B, D); targets (B,) are 1 where they belong together."""
    logits = u @ v.T / TEMPERATURE  # (B, B)
    rows = targets.nonzero()[:, 0]
    forward = F.cross_entropy(logits[rows], rows, reduction="sum")
    backward = F.cross_entropy(logits.T[rows], rows, reduction="sum")
    return (forward + backward) / 2


if __name__ == "__main__":
    words = ["data.pair=pair", "loss=symmetric", "training.batch_tokens=2048"]
    recipe = recipe_of_file(sys.argv[1], "similarity", words)
    run = jumok.train(recipe, out=sys.argv[2])
    print(run.results["accuracy"])
