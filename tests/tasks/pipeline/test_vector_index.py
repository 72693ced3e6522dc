"""Search by cosine: exact, cached, continued after an interruption; and its commands."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jumok
from jumok.cli.options import with_precision
from jumok.data.arrow_cache import cache_folder
from jumok.errors import InputError
from jumok.tasks.pipeline import vector_index
from jumok.tasks.pipeline.vector_index import VectorIndex
from tests.cli.commands import call, environment, run
from tests.errors import raises
from tests.tiny_runs import reviews

TEXTS = sorted({text for text, _ in reviews(60, 5)})


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(vector_index, "BATCH_LINES", 8)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_search_is_exact(review_run: Path, corpus: Path) -> None:
    pipeline = jumok.load(review_run, device="cpu")
    index = VectorIndex.build(pipeline, corpus)
    query = pipeline.encode("음악이 좋았어요")
    vectors = pipeline.encode(TEXTS)
    found = index.search(query, k=5)
    expected = np.sort(vectors @ query)[::-1][:5]
    np.testing.assert_allclose([match.score for match in found], expected, atol=1e-4)  # 4 digits
    assert all(TEXTS[match.line - 1] == match.text for match in found)
    itself = index.search(pipeline.encode(TEXTS[7]), k=1)[0]
    assert itself.score == pytest.approx(1, abs=1e-4)
    assert len(index.search(query, k=10_000)) == len(TEXTS)


def test_equal_lines_come_in_file_order_and_blank_ones_never() -> None:
    texts = ["같은 말"] * 3_000 + [" ", "다른 말", ""]
    vectors = np.ones((len(texts), 2), np.float32)
    vectors[3_001] = [1, -1]
    index = VectorIndex(texts, vectors)
    assert [match.line for match in index.search(np.ones(2, np.float32), k=3)] == [1, 2, 3]
    found = index.search(np.ones(2, np.float32), k=10_000)
    assert [match.line for match in found] == [*range(1, 3_001), 3_002]
    assert VectorIndex(["", " "], vectors[:2]).search(np.ones(2, np.float32)) == []


@pytest.mark.usefixtures("small_batches")
def test_an_interrupted_index_continues(review_run: Path, corpus: Path) -> None:
    pipeline = jumok.load(review_run, device="cpu")
    seen: list[int] = []

    def interrupt(done: int, n: int) -> None:
        assert n == len(TEXTS)
        seen.append(done)
        if done == 16:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        VectorIndex.build(pipeline, corpus, interrupt)
    (part,) = cache_folder("vectors").glob("*-8.part")
    part.with_name(part.name.replace("-8.part", "-16.part")).write_bytes(b"torn")  # a power cut
    VectorIndex.build(pipeline, corpus, lambda done, n: seen.append(done))
    assert seen[:3] == [8, 16, 24]
    index = VectorIndex.build(pipeline, corpus, lambda done, n: pytest.fail("encoded again"))
    np.testing.assert_allclose(index.vectors, pipeline.encode(TEXTS), atol=1e-6)


BUILD = """
import sys, time
from pathlib import Path
import numpy as np
import torch
import jumok
from jumok.tasks.pipeline import vector_index

torch.set_num_threads(1)
vector_index.BATCH_LINES = 8
pipeline = jumok.load(sys.argv[1], device="cpu")
print("ready", flush=True)
sys.stdin.readline()
encoded = []

def progress(done, n):
    encoded.append(done)
    time.sleep(0.05)  # the other process is in the middle too

index = vector_index.VectorIndex.build(pipeline, Path(sys.argv[2]), progress)
np.save(sys.argv[3], index.vectors)
print(len(encoded))
"""


@pytest.mark.slow
@pytest.mark.usefixtures("small_batches")
def test_two_processes_build_the_same_index_at_once(
    review_run: Path, corpus: Path, tmp_path: Path
) -> None:
    files = [tmp_path / "one.npy", tmp_path / "two.npy"]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", BUILD, str(review_run), str(corpus), str(file)],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for file in files
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    batches = [int(process.communicate(timeout=240)[0]) for process in processes]
    expected = jumok.load(review_run, device="cpu").encode(TEXTS)
    for file in files:
        np.testing.assert_allclose(np.load(file), expected, atol=1e-6)
    assert sorted(batches) == [0, -(-len(TEXTS) // 8)]
    (file,) = cache_folder("vectors").iterdir()
    assert file.stat().st_size == expected.nbytes + 32  # with the SHA-256 of the rows


@pytest.mark.usefixtures("small_batches")
def test_an_index_that_others_may_have_written_is_not_read(
    review_run: Path, corpus: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = jumok.load(review_run, device="cpu")
    expected = np.array(VectorIndex.build(pipeline, corpus).vectors)
    (file,) = cache_folder("vectors").iterdir()
    file.write_bytes(bytes(file.stat().st_size))
    file.chmod(0o666)
    np.testing.assert_array_equal(VectorIndex.build(pipeline, corpus).vectors, expected)
    assert f"other users may write to {file}" in caplog.text
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("small_batches")
def test_each_precision_has_its_own_index(review_run: Path, corpus: Path) -> None:
    pipeline = jumok.load(review_run, device="cpu")
    found = {"": np.array(VectorIndex.build(pipeline, corpus).vectors)}
    for number, precision in enumerate(("float32", "bfloat16", "int8"), 2):
        fast = with_precision(pipeline, precision)
        index = VectorIndex.build(pipeline, corpus, encoder=fast)
        found[precision] = np.array(index.vectors)
        assert len(list(cache_folder("vectors").iterdir())) == number
        np.testing.assert_allclose(index.vectors, fast.encode(TEXTS), atol=1e-6)
        again = VectorIndex.build(
            pipeline, corpus, lambda done, n: pytest.fail("encoded again"), encoder=fast
        )
        np.testing.assert_array_equal(again.vectors, index.vectors)
    apart = {name: np.abs(rows - found[""]).max() for name, rows in found.items()}
    assert apart["float32"] < 1e-5 < apart["bfloat16"]
    assert 1e-5 < apart["int8"] < 0.05


@pytest.mark.usefixtures("small_batches")
def test_another_file_has_another_index(review_run: Path, tmp_path: Path) -> None:
    pipeline = jumok.load(review_run, device="cpu")
    for name, text in (("a", "재미있어요\n지루해요\n"), ("b", "재미있어요\n지루해요 \n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
        VectorIndex.build(pipeline, tmp_path / name)
    assert len(list(cache_folder("vectors").iterdir())) == 2


def test_wrong_files(review_run: Path, tmp_path: Path) -> None:
    pipeline = jumok.load(review_run, device="cpu")
    path = tmp_path / "lines.txt"
    path.write_bytes(b"")
    with raises(InputError, "pipeline.no_lines"):
        VectorIndex.build(pipeline, path)
    path.write_bytes("좋다\n".encode() + b"\xff\n")
    with pytest.raises(InputError, match=r"lines.txt:2: .*; correct the line"):
        VectorIndex.build(pipeline, path)


@pytest.mark.slow
def test_the_commands(
    review_run: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = call(capsys, "search", review_run, corpus, TEXTS[3], "--top", "2", "--json").rows
    assert rows[0]["text"] == TEXTS[3]
    assert [*rows[0]] == ["rank", "line", "score", "text"]
    assert [row["rank"] for row in rows] == [1, 2]
    assert TEXTS[3] in call(capsys, "search", review_run, corpus, TEXTS[3], "--top", "1").out
    out, exact = tmp_path / "vectors.npy", ("--precision", "float32")
    done = run("embed", review_run, *exact, "--out", out, stdin="\n".join(TEXTS).encode())
    assert done.code == 0, done.err
    expected = jumok.load(review_run, device="cpu").encode(TEXTS)
    np.testing.assert_allclose(np.load(out, allow_pickle=False), expected, atol=1e-5)
    lines = run("embed", review_run, *exact, stdin="\n".join(TEXTS).encode()).rows
    assert [line["text"] for line in lines] == TEXTS
    np.testing.assert_allclose([line["embedding"] for line in lines], expected, atol=1e-5)
    wrong = run("embed", review_run, "--out", out, "--pooling", "cls", stdin=b"a\n")
    assert wrong.code == 2
    assert 'pooling must be "first", "mean", "max" or "last"' in wrong.err
