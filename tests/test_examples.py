"""The examples, on tiny trained runs."""

import ast
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F

import jumok
from jumok.errors import InputError
from jumok.interpret.trace import Trace
from jumok.tasks.recipe.tables import ModelConfig
from tests import hf_folders
from tests.tiny_runs import SUBJECTS, reviews, write_reviews, write_tsv

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
MAX_LINES = 60


def run(name: str, *overrides: str | Path) -> list[str]:
    """The lines that an example prints; warnings are errors."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *overrides],
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr, done.stderr
    return done.stdout.splitlines()


def is_page(path: Path, view: str) -> bool:
    """Whether a file is a page that opens this view."""
    text = path.read_text(encoding="utf-8")
    return text.startswith("<!doctype html>") and f"v={view}" in text


def test_every_example_is_short_and_tested() -> None:
    found = sorted(path.name for path in EXAMPLES.glob("*.py"))
    assert found == [
        "chroma_vectors.py",
        "explain_classifier.py",
        "langchain_vectors.py",
        "llama_index_vectors.py",
        "note_classifier.py",
        "own_attention.py",
        "own_loss.py",
        "own_model.py",
        "own_positions.py",
        "own_schedule.py",
        "own_task.py",
        "patch_heads.py",
        "ray_serve.py",
        "search_optuna.py",
        "search_ray_tune.py",
        "simultaneous_translation.py",
        "trace_transformers.py",
        "track_mlflow.py",
        "track_wandb.py",
        "watch_translation.py",
    ]
    for name in found:
        assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) < MAX_LINES


@pytest.mark.slow
def test_a_task_of_a_program(review_recipe: Path, tmp_path: Path) -> None:
    text = review_recipe.read_text(encoding="utf-8")
    recipe = review_recipe.with_name("stars.toml")
    text = text.replace("classification", "stars")
    recipe.write_text(f"{text}\n[stars]\npower = 1\n", encoding="utf-8")
    *_, line = run("own_task.py", recipe, tmp_path / "run")
    assert "[stars]\npower = 1.0\n" in (tmp_path / "run" / "recipe.toml").read_text()
    stars_off, label = line.split()
    assert 0 <= float(stars_off) < 0.5  # of two labels: better than the same one for all texts
    assert label in ("positive", "negative")
    with pytest.raises(InputError, match="which is not registered; import"):
        jumok.load(tmp_path / "run")


def load_example(name: str) -> ModuleType:
    """An example, imported."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_a_schedule_of_a_program(review_recipe: Path, tmp_path: Path) -> None:
    """Stable until four fifths, 1 - sqrt(1/2) in the middle of the rest, 0 at the end."""
    wsd = load_example("own_schedule").wsd
    assert [wsd(9, 0, progress) for progress in (0.0, 0.5, 0.8)] == [1.0, 1.0, 1.0]
    assert wsd(9, 0, 0.9) == pytest.approx(1 - 0.5**0.5)
    assert wsd(9, 0, 1.0) == pytest.approx(0.0, abs=1e-9)
    words = {"training__schedule": "wsd", "training__steps": 20, "training__warmup_steps": 2}
    run = jumok.train(review_recipe, out=tmp_path / "run", training__log_every=1, **words)
    records = (run.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rates = [row["learning_rate"] for row in map(json.loads, records) if "learning_rate" in row]
    assert rates[2] == rates[14] == 0.02
    assert rates[16] > rates[17] > rates[18] > rates[19]


def test_a_loss_of_a_program() -> None:
    """The mean of both directions, of which jumok has one; candidates alone are no targets."""
    symmetric = load_example("own_loss").symmetric
    u, v = F.normalize(torch.randn(2, 5, 4), dim=-1)
    logits, rows = u @ v.T / 0.05, torch.arange(5)
    both = [F.cross_entropy(each, rows, reduction="sum") for each in (logits, logits.T)]
    assert torch.allclose(symmetric(u, v, torch.ones(5)), sum(both) / 2)
    targets = torch.tensor([1.0, 0, 0, 0, 0])
    both = [F.cross_entropy(each[:1], rows[:1], reduction="sum") for each in (logits, logits.T)]
    assert torch.allclose(symmetric(u, v, targets), sum(both) / 2)


@pytest.mark.slow
def test_training_with_the_loss_of_a_program(tmp_path: Path) -> None:
    rows = [(f"{subject} 재미있어요", f"{subject} 좋았다") for subject in SUBJECTS]
    pairs = write_tsv(tmp_path / "pairs.tsv", ("text", "pair"), rows * 4)
    *_, accuracy = run("own_loss.py", pairs, tmp_path / "run")
    assert float(accuracy) > 1 / len(SUBJECTS)  # a random choice
    assert 'loss = "symmetric"' in (tmp_path / "run" / "recipe.toml").read_text()


def test_a_model_of_a_program() -> None:
    """Padding changes nothing, and windows begin before the first token."""
    module = load_example("own_model")
    model = module.CNN(ModelConfig(vocabulary_size=9, d_model=8), 3).eval()
    ids, mask = torch.tensor([[3, 4, 0, 0]]), torch.tensor([[True, True, False, False]])
    alone = model(ids[:, :2], mask[:, :2])
    assert alone.shape == (1, 3)
    torch.testing.assert_close(model(ids, mask), alone)
    assert not torch.equal(model(ids[:, :1], mask[:, :1]), alone)


@pytest.mark.slow
def test_training_the_model_of_a_program(review_recipe: Path, tmp_path: Path) -> None:
    *_, line = run("own_model.py", review_recipe, tmp_path / "run")
    accuracy, label = line.split()
    assert float(accuracy) > 0.9
    assert label == "positive"
    model = load_example("own_model").CNN
    assert jumok.load(tmp_path / "run", "cpu", model=model)("정말 재미있어요").label == label


@pytest.mark.slow
@pytest.mark.parametrize("package", ["optuna", "ray.tune"])
def test_a_search(package: str, review_recipe: Path, tmp_path: Path) -> None:
    """Every trial is a run; the best is the one with the highest score on the dev split."""
    pytest.importorskip(package)
    name = f"search_{package.replace('.', '_')}.py"
    lines = run(name, review_recipe, tmp_path, "3")
    line = next(each for each in reversed(lines) if each[:1].isdigit())  # Ray prints more
    runs = [each.parent for each in tmp_path.glob("*/results.json")]
    assert runs
    scores = [jumok.Run(each).results["dev"]["score"] for each in runs]
    assert float(line.split()[0]) == max(scores)
    assert "learning_rate" in line


@pytest.mark.slow
def test_patching_the_heads_of_the_note() -> None:
    """The largest change comes from a head of the cross-attention, where the source is read."""
    first, *lines = run("patch_heads.py")
    clean, other = (float(x) for x in first.partition(": ")[2].split(", "))
    assert clean > 1
    assert other < -1
    assert len(lines) == 12
    assert lines[0].startswith("cross.")
    changes = [float(line.split()[2]) for line in lines]
    assert changes == sorted(changes)
    assert changes[0] < -1


@pytest.mark.slow
def test_explaining_a_classifier(review_run: Path, tmp_path: Path) -> None:
    first, *overrides = run("explain_classifier.py", review_run, "이 영화 정말 최고예요", tmp_path)
    label, probability = first.split()
    assert label in ("positive", "negative")
    assert 0.5 <= float(probability) <= 1
    assert [line.split()[1] for line in overrides] == ["이", "영화", "정말", "최고예요"]
    assert all(-1 <= float(line.split()[0]) <= 1 for line in overrides)
    assert (tmp_path / "explanation.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "heads.png").read_bytes().startswith(b"\x89PNG")
    assert is_page(tmp_path / "page.html", "explanation")


def test_the_classifier_of_the_note_has_30_lines() -> None:
    source = (EXAMPLES / "note_classifier.py").read_text(encoding="utf-8")
    docstring, *statements = ast.parse(source).body
    imports = [node for node in statements if isinstance(node, ast.Import | ast.ImportFrom)]
    left_out = {
        line
        for node in (docstring, *imports)
        for line in range(node.lineno, node.end_lineno + 1)  # type: ignore[operator]
    }
    lines = enumerate(source.splitlines(), 1)
    assert len([line for number, line in lines if line.strip() and number not in left_out]) <= 30


@pytest.mark.slow
def test_the_classifier_of_the_note(tmp_path: Path) -> None:
    """A row for each epoch, with a loss that falls far, and the graph.

    The first loss is that of random weights, which processors may draw differently: no bound.
    """
    files = []
    for seed, (name, n) in enumerate((("train", 256), ("dev", 32))):
        rows = [(text, str(int(label == "positive"))) for text, label in reviews(n, seed)]
        files.append(write_tsv(tmp_path / f"{name}.tsv", ("text", "label"), rows))
    table = run("note_classifier.py", *files, tmp_path / "graph.png", "15")
    rows = [line.split() for line in table]
    assert [row[1] for row in rows] == [str(epoch) for epoch in range(1, 16)]
    losses = [float(row[3]) for row in rows]
    assert losses[-1] < losses[0] / 2
    assert all(0 <= float(row[5]) <= 1 for row in rows)
    assert float(rows[-1][5]) > 0.6  # 0.5 by chance
    assert (tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_tracing_a_translation(reading_run: Path, tmp_path: Path) -> None:
    *steps, output, muted = run(
        "watch_translation.py", reading_run, "삼 일 오", "cross.0.1", tmp_path
    )
    assert steps
    assert all(" looks at " in step and " from " in step for step in steps)
    assert output
    assert muted.startswith("without cross.0.1:")
    assert (tmp_path / "alignment.pdf").read_bytes().startswith(b"%PDF")
    assert is_page(tmp_path / "page.html", "generation")


@pytest.mark.slow
@pytest.mark.usefixtures("compiled")
def test_simultaneous_translation(reading_run: Path) -> None:
    """With more frames than words everything is read first: the output is that of predict."""
    [expected] = jumok.load(reading_run).predict(["삼 일 오"])
    lags = []
    for frames in ("1", "99"):
        *rows, whole, lagging = run("simultaneous_translation.py", reading_run, "삼 일 오", frames)
        assert [row.partition("\t")[0] for row in rows] == ["삼", "일", "오"]
        written = [row.partition("\t")[2] for row in rows]
        assert "".join(written).replace(" ", "") == whole.replace(" ", "")
        lags.append(float(lagging.removeprefix("average lagging ").removesuffix(" words")))
    assert written[:2] == ["", ""]
    assert whole.strip() == expected.display.strip()
    assert lags[-1] == 3.0
    assert lags[0] < 3.0  # something was written before the end


@pytest.mark.slow
def test_tracing_a_transformers_model(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    hf_folders.bert(tmp_path / "bert", "Model")
    first, *rows = run(
        "trace_transformers.py", tmp_path / "bert", "이 영화 정말 최고예요", tmp_path
    )
    trace = Trace.open(tmp_path / "trace.safetensors")
    assert first.startswith("Trace('")
    assert f"has {trace.entropy('encoder').min():.2f} bits" in first
    assert [row.split()[0] for row in rows] == list(trace.info.tokens("source").pieces)
    assert (tmp_path / "model.pdf").read_bytes().startswith(b"%PDF")
    assert is_page(tmp_path / "page.html", "matrix")


# Only what the examples call, and what they pass: the packages are not dependencies of jumok.
TRACKERS = {
    "wandb": """
run = None
class Run:
    def log(self, values, step): print("log", step, *sorted(values))
def init(project, name):
    global run
    run = Run()
    return run
def finish(): print("finished")
""",
    "mlflow": """
started = False
def active_run(): return started
def start_run(run_name):
    global started
    started = True
def log_metric(name, value, step): print("log", step, name)
def log_metrics(values, step): print("log", step, *sorted(values))
def end_run(): print("finished")
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("package", TRACKERS)
def test_tracking_a_training(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"{package}.py").write_text(TRACKERS[package])
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    )
    monkeypatch.chdir(tmp_path)
    lines = run(f"track_{package}.py", write_reviews(tmp_path / "data"))
    steps = [line for line in lines if line.startswith("log ") and "dev_loss" not in line]
    assert len(steps) == 40
    assert "log 40 accuracy dev_loss" in lines
    assert lines[-1] == "finished"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("chroma_vectors.py", "chromadb"),
        ("langchain_vectors.py", "langchain_core"),
        ("llama_index_vectors.py", "llama_index.core"),
    ],
)
def test_vectors_in_other_libraries(name: str, package: str) -> None:
    """Each finds the line about delivery, which shares no word with the question."""
    pytest.importorskip(package)
    (line,) = run(name)
    assert line.endswith("배송은 이틀 걸립니다")
