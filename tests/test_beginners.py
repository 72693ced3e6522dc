"""What a beginner writes first: an answer, or one sentence with the way out."""

import json
import re
from pathlib import Path

import pytest
import torch

import jumok
from jumok.errors import ConfigError, InputError, TokenizerError, TraceError
from jumok.nn.attention import MultiHeadAttention, attention_weights
from jumok.viewer.view_state import VIEWS, ViewState
from tests.cli.commands import call
from tests.errors import raises

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def note() -> "jumok.Pipeline":
    return jumok.load("note")


def test_queries_keys_and_values() -> None:
    x = torch.zeros(1, 4, 8)
    with raises(ConfigError, "nn.three_inputs"):
        MultiHeadAttention(8, 2)(x, x, x)  # type: ignore[arg-type]


def test_equation_1_needs_queries_and_keys_alone() -> None:
    q, k = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 5, 4)
    expected = (q @ k.mT / 4**0.5).softmax(-1)
    torch.testing.assert_close(attention_weights(q, k), expected)
    with raises(ConfigError, "nn.not_an_attention_mask"):
        attention_weights(q, k, torch.ones(1, 5, dtype=torch.bool))  # type: ignore[arg-type]


def test_several_texts_for_a_tokenizer(note: "jumok.Pipeline") -> None:
    for method in (note.vocabulary.encode, note.vocabulary.pieces):
        with raises(TokenizerError, "tokenizer.not_a_text"):
            method(["겨울은 추워요."])  # type: ignore[arg-type]


def test_record_takes_what_load_returns(note: "jumok.Pipeline") -> None:
    with jumok.record(note) as weights:
        note("겨울은 추워요.")
    assert any(name.endswith("cross_attention") for name in weights)


def test_the_name_of_a_shipped_model_is_corrected() -> None:
    with pytest.raises(InputError, match="did you mean note, which ships with jumok"):
        jumok.load("notes")


def test_an_unknown_view_is_refused() -> None:
    with raises(TraceError, "page.unknown_view"):
        ViewState.parse("v=head")
    sources = (ROOT / "web" / "src" / "views").rglob("*.ts*")
    ids = {
        found
        for path in sources
        for found in re.findall(r'^  id: "(\w+)",', path.read_text(), re.M)
    }
    assert ids == set(VIEWS)


def test_a_notebook_with_answers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    paths = tmp_path / "with.ipynb", tmp_path / "without.ipynb"
    call(capsys, "lesson", "3", "--answers", "--notebook", paths[0])
    call(capsys, "lesson", "3", "--notebook", paths[1])
    solved, open_ = (json.loads(path.read_text(encoding="utf-8")) for path in paths)
    assert "guess = ..." not in json.dumps(solved)
    assert "guess = ..." in json.dumps(open_)


def test_a_text_without_a_mask() -> None:
    model = jumok.load("ko-small")
    assert [each.code for each in model("이 영화 정말 재미있어요").warnings] == ["no_mask"]
    assert model("이 영화 정말 [MASK]").warnings == ()


def test_a_text_of_unknown_words_and_an_empty_one(note: "jumok.Pipeline") -> None:
    assert [each.code for each in note("뷁쀍뛟").warnings] == ["unknown_characters"]
    empty = note("")
    assert isinstance(empty, jumok.GeneratedText)
    assert (empty.output, [each.code for each in empty.warnings]) == ("", ["empty_text"])


def test_an_unknown_keyword_of_a_config_names_the_nearest() -> None:
    with raises(ConfigError, "config.unknown_key") as caught:
        jumok.TransformerConfig(dmodel=64)  # type: ignore[call-arg]
    assert "d_model" in str(caught.value)
