"""A task of your own, in one file: ratings, labels that have an order.

    python examples/own_task.py RECIPE.toml RUN  (with task = "stars")

The loss is the squared earth mover's distance of the probabilities (Hou et al. 2016, equation 3):
two stars too many cost more than one. A distribution registers its task with an entry point,
[project.entry-points."jumok.tasks"] stars = "own_task:StarsTask".
"""

import sys

import torch.nn.functional as F

import jumok
from jumok.registry import register
from jumok.tasks.classification import ClassificationJob, build_classifier, label_table
from jumok.tasks.inputs.text_encoder import TextEncoder
from jumok.tasks.pipeline.outputs import EvaluationResult, Prediction
from jumok.tasks.pipeline.sequence_classification import predict_all
from jumok.tasks.task import Task


class StarsJob(ClassificationJob):
    def label_loss(self, logits, batch):
        truth = F.one_hot(batch.labels, logits.shape[-1])  # (B, L)
        return (logits.float().softmax(-1) - truth).cumsum(-1).square().sum()


@register("jumok.tasks", "stars")
class StarsTask(Task):
    kinds, metrics, columns, answer = ("encoder",), ("accuracy",), ("text", "label"), "label"

    def build_model(self, config, labels):
        return build_classifier(config, labels)

    def job(self, recipe):
        return StarsJob

    def predict(self, pipeline, texts):
        encode, found = TextEncoder(pipeline.vocabulary, pipeline.recipe.model.max_length), []
        rows = predict_all(pipeline.model, encode(texts), pipeline.vocabulary, pipeline.device)
        for text, row in zip(texts, rows.softmax(-1).tolist(), strict=True):
            label = pipeline.labels[row.index(max(row))]
            by_label = dict(zip(pipeline.labels, row, strict=True))
            found.append(Prediction(text, label, max(row), by_label))
        return found

    def evaluate(self, pipeline, table, split):
        encode = TextEncoder(pipeline.vocabulary, pipeline.recipe.model.max_length)
        truth = label_table(table, False, encode, pipeline.labels).labels
        outputs = self.predict(pipeline, table.column("text"))
        away = abs(truth - [pipeline.labels.index(each.label) for each in outputs])  # in stars
        scores = {"accuracy": float((away == 0).mean()), "stars_off": float(away.mean())}
        return EvaluationResult({"task": "stars", "split": split, "n": len(truth), **scores})


if __name__ == "__main__":
    run = jumok.train(sys.argv[1], out=sys.argv[2])
    print(run.results["stars_off"], jumok.load(run.folder)("이 영화 정말 좋아요").label)
