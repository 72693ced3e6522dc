"""Linear probes with a control, and the similarity of heads of two checkpoints.

Shapes: n rows, D features, L layers, H heads, T queries, S keys.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jumok.errors import InputError
from jumok.experiment.inputs import Model, Subject, read
from jumok.experiment.metrics import Floats
from jumok.experiment.recording import Array
from jumok.models.points import BlockName
from jumok.training.linear_models import N_FOLDS, LinearProblem, cross_validate, fit

Labels = NDArray[np.generic]


@dataclass(frozen=True)
class Probe:
    """The accuracy of a probe, of the same one on shuffled labels, and of the commonest label.

    `selectivity` is what the representation has and the probe could not learn by itself: Hewitt
    and Liang 2019, "Designing and Interpreting Probes with Control Tasks", section 2.
    """

    accuracy: float
    control: float
    majority: float

    @property
    def selectivity(self) -> float:
        """accuracy - control."""
        return self.accuracy - self.control


def probe(
    features: Array,
    labels: Labels,
    test_features: Array,
    test_labels: Labels,
    *,
    controls: int = 5,
    seed: int = 0,
) -> Probe:
    """Logistic regression from features (n, D) to labels (n,), scored on other rows.

    Features with more axes are flattened. The strength of its penalty is chosen by
    cross-validation in the training rows. The control is the mean accuracy of `controls` probes of
    which all labels, those of the test rows too, are shuffled together.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 2, 200)
    >>> features = labels[:, None] + 0.3 * rng.standard_normal((200, 4))
    >>> found = probe(features[:100], labels[:100], features[100:], labels[100:])
    >>> found.accuracy > 0.95, abs(found.control - 0.5) < 0.15
    (True, True)

    Raises InputError for features and labels of different lengths, and for fewer than two
    different labels in the training rows.
    """
    names, ids = np.unique(np.concatenate([labels, test_labels]), return_inverse=True)
    n, n_classes = len(labels), len(np.unique(labels))
    if len(features) != n or len(test_features) != len(test_labels) or n_classes < 2:
        raise InputError(
            "experiment.probe_rows",
            "a probe needs a label for each row and two or more different labels in training, got "
            "{n} rows, {n_labels} labels for training, {m} and {m_labels} for the test, and {k} "
            "different ones in training",
            n=len(features),
            n_labels=n,
            m=len(test_features),
            m_labels=len(test_labels),
            k=n_classes,
        )
    x, test_x = (_matrix(each) for each in (features, test_features))
    y = torch.from_numpy(ids)
    rng = np.random.default_rng(seed)
    folds = torch.from_numpy(rng.permutation(n) % min(N_FOLDS, n))
    shuffled = [y[torch.from_numpy(rng.permutation(len(y)))] for _ in range(controls)]
    accuracies = [
        _accuracy(x, each[:n], test_x, each[n:], folds, len(names)) for each in [y, *shuffled]
    ]
    common = int(torch.bincount(y[:n]).argmax())
    return Probe(
        accuracies[0],
        float(np.mean(accuracies[1:])) if controls else float("nan"),
        float((y[n:] == common).double().mean()),
    )


def head_similarity(
    model: Model, other: Model, data: object, block: BlockName = "encoder"
) -> Floats:
    """How alike the attention weights of the heads of two models are, (L, H, L', H'), 0 to 1.

    1 minus the Jensen-Shannon divergence in bits of the weights of each query, meant over the real
    tokens of the data: the distance of heads of Clark et al. 2019, "What Does BERT Look At?",
    section 6. Checkpoints of one training, or seeds of one recipe, read the same ids.

    >>> import jumok
    >>> model, data = jumok.load("note", device="cpu"), [("겨울은 추워요.", "Winter is cold.")]
    >>> head_similarity(model, model, data)[0, 0].round(2)[0]  # head 0 of layer 0, and layer 0
    array([1.  , 0.64])

    Raises InputError for a block that a model does not have, and where a model gives the weights of
    a query to other keys.
    """
    subjects, rows = (Subject(model), Subject(other)), read(other, read(model, data))
    names = [subject.names(f"{block}.*.weights") for subject in subjects]
    total, count = torch.zeros(()), 0
    for batch in rows.batches(subjects[0].device):
        first, second = (
            torch.stack(list(subject.run(batch, own)[1].values()), 1).flatten(
                1, 2
            )  # (B, L*H, T, S)
            for subject, own in zip(subjects, names, strict=True)
        )
        real = batch.mask[subjects[0].points[names[0][0]].sides[0]]  # (B, T)
        total = total + torch.stack(
            [
                (_divergence(head[:, None], second) * real[:, None]).sum((0, 2))
                for head in first.unbind(1)
            ]
        )
        count += int(real.sum())
    shape = [
        n
        for each, subject in zip(names, subjects, strict=True)
        for n in (len(each), subject.points[each[0]].heads)
    ]
    found: Floats = (1 - total / count).double().cpu().numpy().reshape(shape)
    return found


def _divergence(p: Tensor, q: Tensor) -> Tensor:
    """The Jensen-Shannon divergence over the last axis, in bits, 0 to 1."""
    return _entropy((p + q) / 2) - (_entropy(p) + _entropy(q)) / 2


def _entropy(p: Tensor) -> Tensor:
    return -p.xlogy(p).sum(-1) / math.log(2)


def _matrix(features: Array) -> Tensor:
    return torch.from_numpy(np.asarray(features).reshape(len(features), -1)).double()


def _accuracy(
    x: Tensor, y: Tensor, test_x: Tensor, test_y: Tensor, folds: Tensor, n_labels: int
) -> float:
    """The accuracy on test rows of logistic regression."""
    problem = LinearProblem(x, y, "cross_entropy", n_labels)
    chosen = cross_validate(
        problem, folds, lambda outputs: float((outputs.argmax(1) == y).double().mean())
    )
    right = fit(problem, chosen.strength)(test_x).argmax(1) == test_y
    return float(right.double().mean())
