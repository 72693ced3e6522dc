"""Morphemes by Kiwi before SentencePiece, in training and at encoding, and without kiwipiepy."""

import subprocess
import sys
from pathlib import Path

import pytest

import jumok
from jumok.errors import InputError
from jumok.tasks.recipe.recipe import load_recipe
from jumok.text.morphemes import RULE, kiwi_version, split_morphemes
from jumok.text.sentencepiece import SentencePieceTokenizer, VocabularyConfig
from tests.errors import raises
from tests.tiny_runs import REVIEWS, reviews, write_reviews

pytest.importorskip("kiwipiepy")
TEXTS = [
    "이 영화 정말 재미있었어요 ㅋㅋ",
    "학교에서는 놀았다. 했어요",
    "  두  칸 😀에서",
    "",
    "abc 12",
]


def test_only_spaces_are_inserted() -> None:
    found = split_morphemes(TEXTS)
    assert found[1] == "학교 에서 는 놀 았 다 . 했 어요"
    for text, split in zip(TEXTS, found, strict=True):
        assert split.replace(" ", "") == text.replace(" ", "")
        assert split.startswith("  ") == text.startswith("  ")
    assert split_morphemes(list(reversed(TEXTS))) == list(reversed(found))


@pytest.fixture(scope="module")
def vocabulary() -> SentencePieceTokenizer:
    config = VocabularyConfig(size=66, pretokenizer="kiwi")
    return SentencePieceTokenizer.train([text for text, _ in reviews(200, 0)], config)


def test_the_model_file_has_the_rule(vocabulary: SentencePieceTokenizer, tmp_path: Path) -> None:
    assert vocabulary.normalization == RULE
    vocabulary.save(tmp_path / "a.model")
    loaded = SentencePieceTokenizer.load(tmp_path / "a.model")
    assert loaded.pretokenizes
    assert loaded.identity == vocabulary.identity
    assert loaded.identity.endswith(kiwi_version())
    assert loaded.encode(TEXTS[0]) == vocabulary.encode(TEXTS[0])


def test_every_way_to_encode_splits_first(vocabulary: SentencePieceTokenizer) -> None:
    text = "결말이 지루해요"
    plain = SentencePieceTokenizer.train(
        [text for text, _ in reviews(200, 0)], VocabularyConfig(size=66)
    )
    spelled = vocabulary.decode(vocabulary.encode(text))
    assert spelled == split_morphemes([text])[0] != text == plain.decode(plain.encode(text))
    assert vocabulary.encode_batch([text] * 3) == [vocabulary.encode(text)] * 3
    assert "".join(vocabulary.pieces(text)).replace("▁", " ").strip() == spelled
    (sampled,) = vocabulary.sample_batch([text], alpha=0.1, seed=1)
    assert vocabulary.decode(sampled) == spelled


def test_a_run_keeps_it(tmp_path: Path) -> None:
    recipe = write_reviews(tmp_path)
    run = jumok.train(str(recipe), out=tmp_path / "run", vocabulary__pretokenizer="kiwi")
    assert 'pretokenizer = "kiwi"' in (tmp_path / "run" / "recipe.toml").read_text()
    loaded = run.load()
    assert isinstance(loaded.vocabulary, SentencePieceTokenizer)
    assert loaded.vocabulary.pretokenizes
    assert run.results["accuracy"] > 0.8
    assert jumok.trace(loaded, "결말이 지루해요").info.classification is not None
    again = f"{REVIEWS.replace('classification', 'masked_language_modeling')}"
    again = again.format(folder=tmp_path).replace(
        "size = 66", f'file = "{tmp_path}/run/vocabulary.model"'
    )
    (tmp_path / "mlm.toml").write_text(again, encoding="utf-8")
    with raises(InputError, "recipe.pretokenizer_not_for_task"):
        jumok.train(str(tmp_path / "mlm.toml"), out=tmp_path / "mlm")


@pytest.mark.parametrize(
    ("recipe", "overrides", "message"),
    [
        ("numbers", [], "recipe.pretokenizer_not_for_task"),
        ("klue-ner", ["vocabulary.kind=bpe"], "recipe.pretokenizer_not_for_task"),
        (
            "nsmc",
            ["data.pieces=true", "augmentation.subword_sampling=0"],
            "recipe.pretokenizer_not_for_task",
        ),
        ("nsmc", ["vocabulary.kind=char"], "text.kiwi_with_other_kind"),
        ("nsmc", ["vocabulary.normalization=none"], "text.kiwi_with_other_kind"),
        ("nsmc", ["vocabulary.pretokenizer=mecab"], "config.wrong_type"),
    ],
)
def test_where_it_does_not_fit(recipe: str, overrides: list[str], message: str) -> None:
    with raises(InputError, message):
        load_recipe(recipe, ["vocabulary.pretokenizer=kiwi", *overrides])
    with raises(InputError, "config.wrong_type"):
        VocabularyConfig(pretokenizer="mecab")  # type: ignore[arg-type]


def test_a_missing_package() -> None:
    """In another process, whose kiwipiepy cannot be imported."""
    code = (
        "import sys; sys.modules['kiwipiepy'] = None\n"
        "from jumok.text.morphemes import split_morphemes\n"
        "split_morphemes(['가'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Error: vocabulary.pretokenizer" in done.stderr
    assert 'not installed; run pip install "jumok[kiwi]"' in done.stderr
