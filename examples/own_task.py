"""A task of your own, in one file: ratings, labels that have an order.

    python examples/own_task.py RECIPE.toml RUN  (with task = "stars", and [stars] power = 1)

The loss is the earth mover's distance of the probabilities (Hou et al. 2016, equation 3): two stars
too many cost more than one. Model and outputs are those of classification; a task that has others
derives from `jumok.tasks.task.Task`, as that one does. A distribution registers its task with an
entry point, [project.entry-points."jumok.tasks"] stars = "own_task:StarsTask".
"""

import sys
from dataclasses import dataclass

import torch.nn.functional as F

import jumok
from jumok.registry import register
from jumok.tasks.classification import ClassificationJob, ClassificationTask
from jumok.tasks.pipeline.outputs import EvaluationResult


@dataclass(frozen=True)
class StarsConfig:
    """The table [stars] of a recipe."""

    power: float = 2.0  # of the distance


class StarsJob(ClassificationJob):
    def label_loss(self, logits, batch):
        away = logits.float().softmax(-1) - F.one_hot(batch.labels, logits.shape[-1])  # (B, L)
        power = self.recipe.stars.power  # type: ignore[attr-defined]  # the table of this task
        return away.cumsum(-1).abs().pow(power).sum()


@register("jumok.tasks", "stars")
class StarsTask(ClassificationTask):
    metrics, columns, tables = ("accuracy",), ("text", "label"), (("stars", StarsConfig),)

    def job(self, recipe):
        return StarsJob

    def evaluate(self, pipeline, table, split):
        found = [each.label for each in self.predict(pipeline, table.column("text"))]
        pairs = zip(found, table.column("label"), strict=True)
        away = [abs(pipeline.labels.index(a) - pipeline.labels.index(b)) for a, b in pairs]
        scores = {"accuracy": away.count(0) / len(away), "stars_off": sum(away) / len(away)}
        return EvaluationResult({"task": "stars", "split": split, "n": len(away), **scores})


if __name__ == "__main__":
    run = jumok.train(sys.argv[1], out=sys.argv[2])
    print(run.results["stars_off"], jumok.load(run.folder)("이 영화 정말 좋아요").label)
