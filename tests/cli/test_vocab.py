"""jumok vocab train, encode, decode and report, as text and as JSON."""

import gzip
import json
import lzma
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from jumok.cli.vocab import app
from jumok.errors import InputError, StorageError
from jumok.text import SentencePieceTokenizer
from tests.errors import raises
from tests.text.sample_texts import CORPUS, SENTENCES, kowiki_like, trained


@pytest.fixture(autouse=True)
def cache_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def model(tmp_path: Path) -> str:
    trained().save(tmp_path / "vocabulary.model")
    return str(tmp_path / "vocabulary.model")


def run(*arguments: str, stdin: str | bytes = "") -> Result:
    result = CliRunner().invoke(app, arguments, input=stdin)
    if isinstance(result.exception, InputError | StorageError):
        raise result.exception
    return result


def shown(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


def rows(result: Result) -> list[dict[str, object]]:
    return [json.loads(line) for line in shown(result).split("\n")[:-1]]


def packed(text: str, path: Path) -> Path:
    data = text.encode()
    pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(data))
    return path


def table(texts: Iterable[str]) -> str:
    return "id\tdocument\tlabel\n" + "".join(f"{i}\t{t}\t1\n" for i, t in enumerate(texts))


# -- train ---------------------------------------------------------------------------------------


def test_training_from_lines_from_a_column_and_from_stdin_is_the_same(tmp_path: Path) -> None:
    lines = "".join(f"{text}\n" for text in CORPUS)
    sources = [
        (packed(lines, tmp_path / "texts.txt"), ()),
        (packed(lines, tmp_path / "texts.txt.gz"), ()),
        (packed(table(CORPUS), tmp_path / "table.tsv.xz"), ("--column", "document")),
    ]
    found = set()
    for source, options in sources:
        out = tmp_path / "a.model"
        arguments = ("train", str(source), *options, "--out", str(out), "--size", "180", "--json")
        (answer,) = rows(run(*arguments))
        assert answer["file"] == str(out)
        found.add(SentencePieceTokenizer.load(out).fingerprint)
    (answer,) = rows(
        run("train", "--out", str(tmp_path / "b.model"), "--size", "180", "--json", stdin=lines)
    )
    assert found == {answer["sha256"]}
    assert (answer["size"], answer["kind"], answer["normalization"]) == (180, "unigram", "nfc")
    assert answer["special_ids"]["[MASK]"] == 6
    left = {path.name for path in tmp_path.iterdir()} - {path.name for path, _ in sources}
    assert left == {"a.model", "b.model"}


def test_training_options_reach_the_vocabulary(tmp_path: Path) -> None:
    out = tmp_path / "v.model"
    options = ["--kind", "bpe", "--byte-fallback", "--split-digits", "--normalization", "none"]
    source = packed("\n".join(CORPUS), tmp_path / "texts.txt")
    result = run("train", str(source), "--out", str(out), "--size", "450", *options)
    assert shown(result) == f"{out}: 450 pieces\n"
    vocabulary = SentencePieceTokenizer.load(out)
    assert (vocabulary.kind, vocabulary.normalization, vocabulary.byte_fallback) == (
        "bpe",
        "none",
        True,
    )
    assert "2026" not in "".join(vocabulary.pieces("2026")[1:2])


def test_invalid_training_arguments(tmp_path: Path) -> None:
    out = str(tmp_path / "v.model")
    with raises(InputError, "text.no_training_text"):
        run("train", "--out", out)
    with raises(InputError, "text.vocabulary_too_large"):
        run("train", "--out", out, "--size", "7999", stdin="가나다\n")
    source = packed(table(CORPUS), tmp_path / "t.tsv")
    with raises(InputError, "file.no_column_header"):
        run("train", str(source), "--column", "text", "--out", out)
    with raises(InputError, "cli.column_needs_file"):
        run("train", "--column", "text", "--out", out, stdin="가나다\n")
    with raises(InputError, "file.bad_text_line"):
        run("train", "--out", out, stdin=b"ok\nab\xff\n")
    with pytest.raises(StorageError, match="cannot be read"):
        run("train", str(tmp_path / "missing.txt"), "--out", out)
    texts = "\n".join(CORPUS)
    with pytest.raises(StorageError, match="cannot be written"):
        run("train", "--out", str(tmp_path / "no" / "v.model"), "--size", "180", stdin=texts)
    assert not Path(out).exists()


# -- encode and decode ---------------------------------------------------------------------------


def test_encoding_shows_pieces_or_ids(model: str) -> None:
    ids = trained().encode("이 영화")
    assert shown(run("encode", model, "이 영화", "배우")) == "▁ 이 ▁영화\n▁배우\n"
    assert shown(run("encode", model, "--ids", "이 영화")) == " ".join(map(str, ids)) + "\n"
    assert rows(run("encode", model, "--json", "이 영화")) == [
        {"text": "이 영화", "pieces": ["▁", "이", "▁영화"], "ids": ids}
    ]


def test_every_line_of_stdin_has_an_answer_empty_lines_included(model: str) -> None:
    texts = ["이 영화", "", "배우\u2028연기", "마지막"]
    found = rows(run("encode", model, "--json", stdin="\r\n".join(texts)))
    assert [row["text"] for row in found] == texts
    assert found[1]["ids"] == []


def test_encoded_and_decoded_is_the_same(model: str) -> None:
    texts = [*SENTENCES, "", "  두  칸 "]
    lines = shown(run("encode", model, "--ids", stdin="\n".join(texts) + "\n"))
    expected = trained().decode_batch(trained().encode_batch(texts))
    assert shown(run("decode", model, stdin=lines)).split("\n")[:-1] == expected


def test_decoding_arguments(model: str) -> None:
    vocabulary = trained()
    ids = [vocabulary.bos_id, *vocabulary.encode("이 영화"), vocabulary.eos_id]
    assert shown(run("decode", model, *map(str, ids))) == "이 영화\n"
    assert rows(run("decode", model, ",".join(map(str, ids)), "--json")) == [
        {"ids": ids, "text": "이 영화"}
    ]
    with raises(InputError, "tokenizer.id_range"):
        run("decode", model, "999999")
    with raises(InputError, "cli.ids_not_integers"):
        run("decode", model, "영화")


def test_line_breaks_in_a_piece_stay_on_the_line(model: str) -> None:
    assert shown(run("encode", model, "이\n영화\t")).rstrip("\n").count("\n") == 0


def test_the_folder_of_a_run_is_accepted(model: str) -> None:
    assert shown(run("encode", str(Path(model).parent), "배우")) == "▁배우\n"


# -- report --------------------------------------------------------------------------------------


def test_the_report_for_people(model: str, tmp_path: Path) -> None:
    source = packed(table(["영화 영화", "뷁뷁 영화"]), tmp_path / "t.tsv")
    text = shown(run("report", model, str(source), "--column", "document"))
    for line in [
        r"vocabulary +200 pieces, unigram, nfc normalization",
        r"special pieces +\[PAD\] 0  \[UNK\] 1  \[BOS\] 2",
        r"texts +2 with 10 characters, 4 eojeols",
        r"tokens per character +0\.500",
        r"unknown +1 tokens, 20\.0000%",
        r"lost +1 texts",
        r"without a piece +뷁뷁 1",
        r"'뷁뷁' -> '' in '뷁뷁 영화'",
    ]:
        assert re.search(line, text), line


def test_the_report_as_json(tmp_path: Path) -> None:
    path = tmp_path / "k.model"
    path.write_bytes(kowiki_like())
    (found,) = rows(run("report", str(path), "--json", "--examples", "1", stdin="영화 ㅋㅋ\n영화"))
    assert found["normalization"] == "nmt_nfkc"
    assert (found["texts"], found["lost_texts"], found["unknown_rate"]) == (2, 1, 0.0)
    assert found["losses"][0] | {"expected": "ㅋㅋ", "got": "ᄏᄏ"} == found["losses"][0]
    assert found["special_ids"]["[CLS]"] == 5


def test_an_invalid_model_file(tmp_path: Path) -> None:
    path = packed("안녕", tmp_path / "x.model")
    with pytest.raises(InputError, match="not a SentencePiece model"):
        run("report", str(path))
    with pytest.raises(StorageError, match=r"vocabulary\.model: cannot be read"):
        run("encode", str(tmp_path), "가")


# -- add -----------------------------------------------------------------------------------------


def test_words_are_added_to_a_file_and_to_a_run(
    model: str, review_run: Path, tmp_path: Path
) -> None:
    words = tmp_path / "words.txt"
    words.write_text("코로나\n꿀잼이다\n", encoding="utf-8")
    size = len(SentencePieceTokenizer.load(model))
    out = tmp_path / "new.model"
    assert shown(run("add", model, str(words), "--out", str(out))) == (
        f"{out}: {size + 2} pieces, 2 of them new\n"
    )
    (answer,) = rows(run("encode", str(out), "꿀잼이다", "--json"))
    assert answer["ids"] == [size + 1]
    grown = tmp_path / "grown"
    (answer,) = rows(run("add", str(review_run), str(words), "--out", str(grown), "--json"))
    assert (answer["added"], answer["file"]) == (2, str(grown))
    assert SentencePieceTokenizer.load(grown / "vocabulary.model").fingerprint == answer["sha256"]
    with raises(InputError, "cli.exists"):
        run("add", model, str(words), "--out", str(out))
    with raises(InputError, "cli.side_of_vocabulary_file"):
        run("add", model, str(words), "--out", str(tmp_path / "x"), "--side", "both")
    with pytest.raises(InputError, match="are not a SentencePiece model"):
        run("add", str(words), str(words), "--out", str(tmp_path / "x"))
