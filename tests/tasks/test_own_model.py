"""A model, a loss and a metric of one's own: every task, recorded, refused without them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import jumok
from jumok.checks import CheckTarget, all_checks, draw_samples, run_checks, text_samples
from jumok.engine.run import UnsupportedError, open_run
from jumok.errors import InputError
from jumok.export.export_run import export
from jumok.nn.losses import binary_cross_entropy, cross_entropy
from jumok.registry import register
from jumok.tasks.own_model import register_model
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.recipe.tables import ModelConfig
from jumok.tasks.registry import get_task
from jumok.tasks.regression import squared_error
from jumok.tasks.runs.score_table import score_table
from tests.combinations import slow
from tests.errors import raises
from tests.tasks.tiny_jobs import tag_rows
from tests.tiny_runs import reviews

TEXT = "이 영화 재미있어요"
RECIPE = """
task = "{task}"
[vocabulary]
size = 66
[model]
kind = "{kind}"
d_model = 16
n_heads = 2
d_ff = 32
n_layers = 1
max_length = 24
[training]
steps = 60
batch_tokens = 512
learning_rate = 0.02
warmup_steps = 5
evaluate_every = 30
precision = "float32"
"""

LONGER: dict[str, Any] = {"training__steps": 160, "training__keep_checkpoints": 9}


class Mean(nn.Module):
    """The mean vector of a text and a linear map."""

    def __init__(self, config: ModelConfig, n_outputs: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.vocabulary_size, config.d_model)
        self.output = nn.Linear(config.d_model, n_outputs)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        weights = mask / mask.sum(-1, keepdim=True)
        return self.output((self.embedding(ids) * weights[..., None]).sum(1))  # type: ignore[no-any-return]


class Vectors(Mean):
    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return F.normalize(super().forward(ids, mask), dim=-1)


class Tokens(Mean):
    """Each token, and the one before it."""

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.embedding(ids * mask)
        return self.output(x + x.roll(1, 1))  # type: ignore[no-any-return]


def scored(n: int) -> list[tuple[str, float]]:
    return [(text, 5.0 if label == "positive" else 1.0) for text, label in reviews(n, 0)]


def recipe_of(folder: Path, task: str, **tables: str) -> Path:
    kind = get_task(task).kinds[0]
    path = folder / f"{task}.toml"
    more = "".join(f"[{name}]\n{lines}\n" for name, lines in tables.items())
    path.write_text(RECIPE.format(task=task, kind=kind) + more, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(review_recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> jumok.Run:
    folder = tmp_path_factory.mktemp("own-model") / "run"
    return jumok.train(review_recipe, model=Mean, out=folder, **LONGER)


def test_a_classifier_learns_and_is_recorded(run: jumok.Run) -> None:
    assert run.results["accuracy"] > 0.9
    assert run.recipe.model.architecture == "Mean"
    tree = json.loads((run.folder / "extensions.json").read_text(encoding="utf-8"))
    (record,) = tree["extensions"]
    assert len(record["sha256"]) == 64
    assert (record["group"], record["name"], record["module"]) == ("jumok.models", "Mean", __name__)
    loaded = jumok.load(run.folder, "cpu", model=Mean)
    assert type(loaded.model) is Mean
    ids = torch.tensor([loaded.vocabulary.encode(TEXT)])
    mask = torch.ones_like(ids, dtype=torch.bool)
    assert torch.equal(loaded.logits(ids), loaded.model(ids, mask))
    checkpoint = jumok.load(run.folder / "checkpoints" / "step-20", "cpu", model=Mean)
    assert not torch.equal(checkpoint.logits(ids), loaded.logits(ids))


@pytest.mark.slow
def test_it_is_refused_without_the_class(run: jumok.Run) -> None:
    code = f"import jumok; jumok.load({str(run.folder)!r})"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stderr.splitlines()[-1].endswith(
        "was trained with the extension 'Mean' of jumok.models, which is not registered; import "
        f"{__name__} first, or pass its Mean: jumok.load(FOLDER, model=Mean)"
    )


def test_another_model_is_refused(run: jumok.Run, review_run: Path) -> None:
    with raises(InputError, "run.other_own_model"):
        jumok.load(run.folder, model=Tokens)
    with raises(InputError, "run.other_own_model"):
        jumok.load(review_run, model=Mean)
    with raises(InputError, "run.model_argument"):
        register_model("Mean")  # type: ignore[arg-type]
    with raises(InputError, "run.model_argument"):
        jumok.load(run.folder, model=lambda config, n_outputs: Mean(config, 2))


def test_the_same_seed_and_a_resumed_run_have_the_same_bits(
    run: jumok.Run, review_recipe: Path, tmp_path: Path
) -> None:
    class Stop(jumok.Callback):
        def on_step(self, status: jumok.TrainingStatus) -> None:
            if status.step == 25:
                raise KeyboardInterrupt

    with pytest.raises(BaseException):  # noqa: B017, PT011  # of the callback, whatever it becomes
        jumok.train(review_recipe, model=Mean, out=tmp_path / "run", callbacks=[Stop()], **LONGER)
    again = jumok.resume(tmp_path / "run", model=Mean)
    weights = "model.safetensors"
    assert (again.folder / weights).read_bytes() == (run.folder / weights).read_bytes()


def test_a_module_is_copied(review_recipe: Path, tmp_path: Path) -> None:
    """It begins from its own weights, and stays as it is."""
    module = Vectors(ModelConfig(vocabulary_size=66, d_model=8), 2)
    before = {name: weight.clone() for name, weight in module.state_dict().items()}
    run = jumok.train(review_recipe, model=module, out=tmp_path / "run", training__steps=1,
                      training__learning_rate=1e-9)  # fmt: skip
    for name, weight in module.state_dict().items():
        assert torch.equal(weight, before[name])
    trained = run.load("cpu", model=module).model.state_dict()
    for name, weight in trained.items():
        torch.testing.assert_close(weight, before[name], atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("task", "model", "rows", "metric", "bound"),
    [
        ("multi_label_classification", Mean, reviews(80, 0), "exact_match", 0.9),
        slow("regression", Mean, scored(80), "pearson", 0.9),
        slow("tagging", Tokens, tag_rows(60, 0), "entity_f1", 0.7),
        slow(
            "similarity", Vectors, [(t, t.split()[0]) for t, _ in reviews(80, 0)], "accuracy", 0.2
        ),
    ],
)
def test_every_task(
    task: str, model: Any, rows: Any, metric: str, bound: float, tmp_path: Path
) -> None:
    tables = {"regression": {"regression": "lowest = 1.0\nhighest = 5.0"}}.get(task, {})
    more: dict[str, Any] = {"training__steps": 160}
    more |= {"vocabulary__kind": "char"} if task == "tagging" else {}
    more |= {"data__pair": "pair", "model__dropout": 0.0} if task == "similarity" else {}
    recipe = recipe_of(tmp_path, task, **tables)
    run = jumok.train(recipe, data=rows, dev=rows, test=rows, model=model, out=tmp_path / "run",
                      **more)  # fmt: skip
    assert run.results[metric] > bound
    text = "\t".join(rows[0]) if task == "similarity" else rows[0][0]
    found = run.predict(text)
    assert found == jumok.load(run.folder, "cpu")(text)


def test_masked_tokens(tmp_path: Path) -> None:
    rows = [(text,) for text, _ in reviews(80, 0)]
    recipe = recipe_of(tmp_path, "masked_language_modeling")
    run = jumok.train(recipe, data=rows, dev=rows, test=rows, model=Tokens, out=tmp_path / "run")
    assert run.results["perplexity"] < 30  # of 66 pieces
    assert "[MASK]" not in run.predict("이 [MASK] 재미있어요").output
    with raises(InputError, "recipe.fixed_value"):
        load_recipe(str(recipe), ["model.architecture=Tokens", "masking.packed=true"])


def test_what_a_model_must_be(review_recipe: Path, tmp_path: Path) -> None:
    class Narrow(Mean):
        def __init__(self, config: ModelConfig, n_outputs: int) -> None:
            super().__init__(config, n_outputs + 1)

    class NoMask(Mean):
        def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
            return super().forward(ids, torch.ones_like(ids))

    class Normed(Mean):
        def __init__(self, config: ModelConfig, n_outputs: int) -> None:
            super().__init__(config, n_outputs)
            self.norm = nn.BatchNorm1d(3)

    for model, code in (
        (Narrow, "run.own_model_shape"),
        (NoMask, "run.own_model_fails"),
        (Normed, "run.own_model_buffers"),
    ):
        with raises(InputError, code):
            jumok.train(review_recipe, model=model, out=tmp_path / "run")
    pairs = [{"text": text, "pair": text} for text, _ in reviews(120, 0)]
    recipe = recipe_of(tmp_path, "similarity")
    with raises(InputError, "run.own_model_vectors"):
        jumok.train(recipe, data=pairs, data__pair="pair", model=Mean, out=tmp_path / "run",
                    model__dropout=0.0)  # fmt: skip
    assert not (tmp_path / "run").exists()
    with raises(InputError, "recipe.own_model_not_for_task"):
        jumok.train("numbers", model=Mean)
    with raises(InputError, "recipe.fixed_value"):
        jumok.train(review_recipe, model=Mean, training__layer_decay=0.5)


def test_what_other_parts_say(run: jumok.Run, tmp_path: Path) -> None:
    pipeline = run.load("cpu")
    with raises(InputError, "trace.own_model"):
        jumok.trace(pipeline, TEXT)
    with raises(InputError, "export.own_model"):
        export(run.folder, "onnx", tmp_path / "out")
    with raises(InputError, "pipeline.own_model"):
        pipeline.encode(TEXT)
    with raises(InputError, "pipeline.own_model"):
        pipeline.hidden_states(torch.tensor([[1]]))
    with pytest.raises(UnsupportedError):
        open_run(run.folder)


def test_a_batch_is_compared_with_single_texts(
    run: jumok.Run, review_recipe: Path, tmp_path: Path
) -> None:
    class Careless(Mean):
        """Padding changes its outputs."""

        def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
            return super().forward(ids, torch.ones_like(mask))

    careless = jumok.train(review_recipe, model=Careless, out=tmp_path / "run", training__steps=9)
    for each, expected in ((run, "pass"), (careless, "fail")):
        pipeline = each.load("cpu")
        samples = [*text_samples(pipeline, [TEXT, "별로예요"]), *draw_samples(pipeline)]
        found = list(run_checks(CheckTarget(pipeline, samples, 2), all_checks()))
        assert {result.equality: result.result for result in found}["alone = batched"] == expected
        assert {result.result for result in found} == {expected, "not applicable"}


@register("jumok.losses", "tests_same")
def same(outputs: Tensor, targets: Tensor) -> Tensor:
    """The loss of the task itself, by the shape of its outputs."""
    if outputs.ndim == 1:
        return squared_error(outputs, targets)
    return (binary_cross_entropy if targets.ndim == 2 else cross_entropy)(outputs, targets)


@register("jumok.metrics", "tests_wrong")
def wrong(expected: Any, predicted: Any) -> float:
    """The number of rows with another answer, so that the worst weights are kept."""
    return float(sum(a != b for a, b in zip(expected, predicted, strict=True)))


@pytest.mark.parametrize(
    ("task", "rows"),
    [
        slow("classification", reviews(60, 0)),
        slow("multi_label_classification", reviews(60, 0)),
        slow("regression", scored(60)),
        slow("tagging", tag_rows(40, 0)),
        slow("sequence_to_sequence", [("삼 일", "3 1"), ("오 영", "5 0"), ("이 구", "2 9")] * 20),
        slow("language_modeling", [(text,) for text, _ in reviews(60, 0)]),
        ("masked_language_modeling", [(text,) for text, _ in reviews(60, 0)]),
    ],
)
def test_a_loss_of_ones_own_in_every_task(task: str, rows: Any, tmp_path: Path) -> None:
    """With the formula of the task the weights are those of the task, but for rounding."""
    more = {"vocabulary__kind": "char"} if task in ("tagging", "sequence_to_sequence") else {}
    short = {"training__steps": 4, "training__evaluate_every": 4, "model__dropout": 0.0}
    short["training__learning_rate"] = 1e-3
    recipe, runs = recipe_of(tmp_path, task), {}
    for name in (None, "tests_same"):
        own = {} if name is None else {"loss": name}
        runs[name] = jumok.train(recipe, data=rows, dev=rows, test=rows, out=tmp_path / str(name),
                                 **short, **more, **own)  # fmt: skip
    expected, found = (runs[name].load("cpu").model.state_dict() for name in (None, "tests_same"))
    for key, weight in expected.items():
        if key.endswith("key.bias"):  # its gradient is rounding alone, which AdamW enlarges
            continue
        torch.testing.assert_close(found[key], weight, atol=2e-5, rtol=1e-4)
    losses = [run.history[0]["dev_loss"] for run in runs.values()]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_a_loss_of_vectors(tmp_path: Path) -> None:
    seen = []

    @register("jumok.losses", "tests_pairs")
    def pairs(u: Tensor, v: Tensor, targets: Tensor) -> Tensor:
        seen.append((tuple(u.shape), tuple(v.shape), tuple(targets.shape)))
        return ((u - v).square().sum(-1) * targets).sum()

    rows = [{"text": text, "pair": text} for text, _ in reviews(120, 0)]
    recipe = recipe_of(tmp_path, "similarity")
    jumok.train(recipe, data=rows, out=tmp_path / "run", data__pair="pair", loss="tests_pairs",
                training__steps=2)  # fmt: skip
    (n, width), second, targets = seen[0]
    assert (width, second, targets) == (16, (n, 16), (n,))


@pytest.mark.parametrize(
    ("task", "rows"),
    [
        slow("classification", reviews(60, 0)),
        slow("multi_label_classification", reviews(60, 0)),
        ("regression", scored(60)),
        slow("tagging", tag_rows(40, 0)),
        slow("sequence_to_sequence", [("삼 일", "3 1"), ("오 영", "5 0")] * 20),
    ],
)
def test_a_metric_of_ones_own_selects_the_weights(task: str, rows: Any, tmp_path: Path) -> None:
    more: dict[str, Any] = {"training__steps": 20, "training__evaluate_every": 5}
    more |= {"metric": "tests_wrong", "data": rows, "dev": rows, "test": rows}
    if task in ("tagging", "sequence_to_sequence"):
        more["vocabulary__kind"] = "char"
    run = jumok.train(recipe_of(tmp_path, task), out=tmp_path / "run", **more)
    scores = [row["score"] for row in run.history]
    assert run.history[0]["metric"] == "tests_wrong"
    assert run.results["dev"]["score"] == max(scores)
    assert run.results["tests_wrong"] == max(scores)  # test and dev are the same rows
    (group,) = score_table([run.folder])
    assert group.scores["tests_wrong"].mean == max(scores)
    assert jumok.evaluate(run, rows)["tests_wrong"] == max(scores)


def test_what_losses_and_metrics_exclude(review_recipe: Path, tmp_path: Path) -> None:
    with raises(InputError, "extension.unknown_name"):
        load_recipe(str(review_recipe), ["loss=focal"])
    with raises(InputError, "recipe.fixed_value"):
        load_recipe(str(review_recipe), ["loss=tests_same", "training.label_smoothing=0.1"])
    with raises(InputError, "recipe.metric_not_for_task"):
        load_recipe(str(review_recipe), ["metric=mcc"])
    language = recipe_of(tmp_path, "language_modeling")
    with raises(InputError, "recipe.metric_not_for_task"):
        load_recipe(str(language), ["metric=tests_wrong"])

    @register("jumok.metrics", "tests_none")
    def none(expected: Any, predicted: Any) -> None:
        """No number."""

    with raises(InputError, "evaluation.metric_without_number"):
        jumok.train(review_recipe, metric="tests_none", out=tmp_path / "run", training__steps=1)


@pytest.mark.parametrize(
    ("group", "part", "code"),
    [
        ("losses", lambda x, y: F.cross_entropy(x, y, reduction="none"), "training.own_loss"),
        ("losses", lambda x, y: x.detach().sum(), "training.own_loss"),
        ("losses", lambda x, y: 3.0, "training.own_loss"),
        ("metrics", lambda expected, predicted: float("nan"), "evaluation.metric_without_number"),
        ("schedules", lambda *_: float("nan"), "training.schedule_factor"),
        ("schedules", lambda *_: -1.0, "training.schedule_factor"),
        ("schedules", lambda *_: None, "training.schedule_factor"),
        ("optimizers", lambda: None, "training.own_optimizer"),
        ("models", lambda config, n_outputs: None, "run.no_own_model"),
        ("models", lambda config, n_outputs: nn.Identity(), "run.no_own_model"),
        ("models", lambda *given: Broken(*given), "run.own_model_shape"),
    ],
)
def test_a_part_that_returns_something_else_is_named(
    group: str, part: Any, code: str, review_recipe: Path, tmp_path: Path
) -> None:
    name = f"part_{abs(hash((group, code, part)))}"
    register(f"jumok.{group}", name, part)
    keys = {"losses": "loss", "metrics": "metric", "models": "model__architecture"}
    key = keys.get(group, f"training__{group[:-1]}")
    more: dict[str, Any] = {"training__steps": 8, "training__warmup_steps": 2, key: name}
    with raises(InputError, code):
        jumok.train(review_recipe, out=tmp_path / "run", training__evaluate_every=4, **more)


class Broken(Mean):
    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return super().forward(ids, mask) * float("nan")
