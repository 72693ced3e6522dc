"""KoBERT's folders: ids as its own tokenizers give them, and models that open."""

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

import jumok
from jumok.errors import InputError
from jumok.text.pretrained import PretrainedTokenizer, load_tokenizer
from tests.errors import raises
from tests.hf_folders import kobert, lines

transformers = pytest.importorskip("transformers")

TEXTS = (
    "한국어 모델을 공유합니다.",
    "값은 3,500원,  1,000,000원!  ``따옴표'' ㅋㅋㅋ",
    "이 영화 [MASK] 재미있다[SEP] 끝",
    "éclair Ａ１ ㈜ … 12,",
    "   ",
    "",
)


class Reference(transformers.PreTrainedTokenizer):  # type: ignore[misc]  # transformers has no types
    """The steps of tokenization_kobert.py of monologg and of kobert_tokenizer.py of SKT."""

    model_input_names = ("input_ids", "token_type_ids", "attention_mask")

    def __init__(self, folder: Path, lower_case: bool = False) -> None:
        self.lower_case = lower_case
        file = next(folder.glob("*.model"))
        self.sp = sentencepiece.SentencePieceProcessor(model_file=str(file))
        if (folder / "vocab.txt").is_file():
            rows = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]
        else:
            rows = [self.sp.id_to_piece(i) for i in range(self.sp.get_piece_size())]
        self.table = {row.strip(): i for i, row in enumerate(rows)}
        names = ("unk", "sep", "pad", "cls", "mask")
        super().__init__(**{f"{name}_token": f"[{name.upper()}]" for name in names})

    @property
    def vocab_size(self) -> int:
        return len(self.table)

    def get_vocab(self) -> dict[str, int]:
        return dict(self.table)

    def _tokenize(self, text: str) -> list[str]:
        text = " ".join(text.strip().split()).replace("``", '"').replace("''", '"')
        text = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in text if not unicodedata.combining(c))
        found: list[str] = []
        for piece in self.sp.encode(text.lower() if self.lower_case else text, out_type=str):
            if len(piece) > 1 and piece.endswith(",") and piece[-2].isdigit():
                again = self.sp.encode(piece[:-1].replace("▁", ""), out_type=str)
                if piece[0] != "▁" and again[0][0] == "▁":
                    again = again[1:] if again[0] == "▁" else [again[0][1:], *again[1:]]
                found += [*again, ","]
            else:
                found.append(piece)
        return found

    def _convert_token_to_id(self, token: str) -> int:
        return self.table.get(token, self.table["[UNK]"])

    def _convert_id_to_token(self, index: int) -> str:
        return next(token for token, i in self.table.items() if i == index)

    def build_inputs_with_special_tokens(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        cls, sep = [self.cls_token_id], [self.sep_token_id]
        first = cls + token_ids_0 + sep
        return first if token_ids_1 is None else first + token_ids_1 + sep

    def create_token_type_ids_from_sequences(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        first = [0] * (len(token_ids_0) + 2)
        return first if token_ids_1 is None else first + [1] * (len(token_ids_1) + 1)


@pytest.fixture(scope="module", params=["monologg", "skt", "distil"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kobert") / request.param
    kobert(path, request.param)
    return path


def tokenizer(folder: Path) -> PretrainedTokenizer:
    config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    found = load_tokenizer(folder, config)
    assert found is not None
    return found


def test_ids_pairs_and_texts_are_those_of_its_tokenizer(folder: Path) -> None:
    actual, reference = tokenizer(folder), Reference(folder)
    texts = [*TEXTS, *lines()]
    rows = actual.encode_batch_with_special_tokens(texts, max_length=10**6)
    expected = reference(texts)
    assert [row.ids for row in rows] == expected["input_ids"]
    pairs = actual.encode_batch_with_special_tokens(texts, texts[::-1], max_length=16)
    expected = reference(texts, texts[::-1], truncation=True, max_length=16)
    assert [row.ids for row in pairs] == expected["input_ids"]
    assert [row.token_type_ids for row in pairs] == expected["token_type_ids"]
    assert actual.special_ids["[PAD]"] == 1
    plain = [text for text in texts if "[" not in text]
    assert actual.encode_batch(plain) == actual.encode_hf(plain)
    for text in lines():
        assert actual.decode(actual.encode(text)) == unicodedata.normalize("NFKC", text).strip()


@given(text=st.text(st.sampled_from("이영화 ,1,20``''é한글\n\u1112\u1161ㅋ[MASK]")))
def test_any_text_has_the_ids_of_its_tokenizer(text: str, hypothesis_folder: Path) -> None:
    actual, reference = tokenizer(hypothesis_folder), Reference(hypothesis_folder)
    expected = reference([text], add_special_tokens=False)["input_ids"]
    assert actual.encode_hf([text]) == expected
    assert set(actual.special_ids.values()) - {actual.unk_id} & set(actual.encode(text)) == set()


@pytest.fixture(scope="module")
def hypothesis_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kobert") / "monologg"
    kobert(path, "monologg")
    return path


def test_offsets(folder: Path) -> None:
    encoding = tokenizer(folder).encode_with_offsets("이 영화 재미있어요")
    assert encoding.offsets[-1][1] == len("이 영화 재미있어요")


def test_the_model_opens_is_imported_and_written_back(folder: Path, tmp_path: Path) -> None:
    import torch

    from jumok.export.export_run import export
    from jumok.tasks.runs.import_checkpoint import import_checkpoint

    loaded = jumok.load(folder)
    text = "이 영화 [MASK] 재미있어요"
    filled = loaded(text)
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    ids = torch.tensor([Reference(folder)(text)["input_ids"]])
    with torch.no_grad():
        torch.testing.assert_close(loaded.model(ids), model(ids).logits, rtol=0, atol=5e-6)
    import_checkpoint(folder, tmp_path / "run")
    assert jumok.load(tmp_path / "run")(text) == filled
    assert jumok.trace(loaded, text).info.tokens("source").pieces[0] == "[CLS]"
    assert loaded.encode(["이 영화"]).shape == (1, 24)
    export(tmp_path / "run", "hf", tmp_path / "back")
    for path in folder.iterdir():
        if path.suffix in (".model", ".txt"):
            assert (tmp_path / "back" / path.name).read_bytes() == path.read_bytes()


def test_folders_of_other_tokenizers_are_left_alone(folder: Path, tmp_path: Path) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    bad = tmp_path / "bad"
    bad.mkdir()
    for path in folder.iterdir():
        (bad / path.name).write_bytes(path.read_bytes())
    (bad / "tokenizer_config.json").write_text('{"sp_model_kwargs": {"alpha": 1}}')
    with raises(InputError, "tokenizer.sp_model_kwargs_not_supported"):
        load_tokenizer(bad, {"model_type": config["model_type"]})
    (bad / "tokenizer_config.json").write_text("{}")
    next(bad.glob("*.model")).write_bytes(b"no model")
    with pytest.raises(InputError, match="not a SentencePiece model"):
        load_tokenizer(bad, {"model_type": config["model_type"]})
