"""`ratings_train.json` as the notes write it: JSON lines with pieces under `doc`."""

import json
from pathlib import Path

import pytest

from jumok.data.files.tables import read_table
from jumok.errors import InputError

HEADERS = {"text": "text", "label": "label"}


def written(path: Path, *docs: object) -> Path:
    lines = [
        json.dumps({"id": str(i), "doc": doc, "label": i % 2}, ensure_ascii=False)
        for i, doc in enumerate(docs)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_pieces_are_joined_to_their_text(tmp_path: Path) -> None:
    docs = ["▁이", "▁영화", "는", "▁좋", "아요", "!"], ["▁겨울", "은", "▁추워", "요", "."]
    table = read_table(written(tmp_path / "ratings_train.json", *docs), HEADERS, format="json")
    assert list(table.column("text")) == ["이 영화는 좋아요!", "겨울은 추워요."]
    assert list(table.column("label")) == ["0", "1"]


def test_other_lists_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "ratings_train.json", ["이", "영화"], ["▁좋"])
    with pytest.raises(InputError, match="text is not a text"):
        read_table(path, HEADERS, format="json")
