"""Valid tiny files as fuzzing seeds: untrained runs, traces, tokenizers, tables, archives.

Everything is made here, in about a second, the same on every run.
"""

import gzip
import hashlib
import io
import json
import lzma
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from .fuzz_mutations import Files

LINES = (
    "이 영화 정말 재미있어요 ㅋㅋ", "결말이 너무 지루해요", "음악이 최고예요", "삼 일 오",
    "구 영 칠", "배우들이 별로예요 ㅠㅠ", "The cat sat on the mat", "3 1 5", "한글 and English",
)  # fmt: skip

RECIPE = """
name = "reviews"
task = "{task}"
metric = "{metric}"
seed = 3

[data]
train = "train.tsv"
dev = "dev.tsv"
test = "test.tsv"
labels = {labels}

[vocabulary]
size = 68
kind = "unigram"

[model]
kind = "{kind}"
d_model = 8
n_heads = 2
d_ff = 8
n_layers = 1
max_length = 16
positions = "rotary"

[training]
steps = 4
batch_tokens = 64
learning_rate = 1e-3
schedule = "cosine"
"""

WORDS = """training.steps=10
name=시험
model.d_model=64
data.labels=["a","b"]
training.learning_rate=1e-4
vocabulary.joint=false
decoding.beam=4
model.n_heads=1979-05-27T07:32:00Z
"""


def recipe(task: str) -> str:
    """The recipe of a tiny model for a task."""
    kinds = {"classification": ("encoder", "accuracy"), "language_modeling": ("decoder", "")}
    kind, metric = kinds.get(task, ("encoder_decoder", "bleu"))
    labels = '["no", "yes"]' if task == "classification" else "[]"
    text = RECIPE.format(task=task, metric=metric, kind=kind, labels=labels)
    return text if metric else text.replace('metric = ""\n', "")


@cache
def vocabulary_bytes(kind: str = "unigram", byte_fallback: bool = False) -> bytes:
    """The `.model` file of a vocabulary trained on `LINES`."""
    from jumok.text.sentencepiece import SentencePieceTokenizer, VocabularyConfig

    size = 68 + 256 * byte_fallback
    config = VocabularyConfig(kind=kind, size=size, byte_fallback=byte_fallback)  # type: ignore[arg-type]
    return SentencePieceTokenizer.train(LINES, config).to_bytes()


def write_run(
    folder: Path,
    task: str = "classification",
    seed: int = 0,
    kind: str = "unigram",
    words: Sequence[str] = (),
) -> Path:
    """A finished run in `folder` with untrained weights.

    `kind` is that of its vocabulary, `words` are laid over its recipe.
    """
    import torch

    from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
    from jumok.tasks.recipe.recipe import load_recipe
    from jumok.tasks.registry import get_task
    from jumok.tasks.runs.run import Run
    from jumok.text.sentencepiece import SentencePieceTokenizer

    folder.mkdir(parents=True, exist_ok=True)
    source = folder.parent / f"{folder.name}.toml"
    source.write_text(recipe(task), encoding="utf-8")
    vocabulary = SentencePieceTokenizer(vocabulary_bytes(kind))
    both = TokenizerPair(vocabulary, vocabulary)
    plan = load_recipe(str(source), words).with_vocabulary(*both.sizes)
    source.unlink()
    labels = tuple(plan.data.labels)
    torch.manual_seed(seed)
    run = Run.create(folder, plan, both)
    model = get_task(plan.task).build_model(plan.model, labels)
    run.save_model(model, plan.task, plan.model, labels, both.checksums)
    return folder


def read_folder(folder: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


@cache
def runs() -> list[Files]:
    """Runs of three tasks."""
    with tempfile.TemporaryDirectory() as home:
        tasks = ("classification", "sequence_to_sequence", "language_modeling")
        return [read_folder(write_run(Path(home) / task, task)) for task in tasks]


@cache
def traces() -> list[Files]:
    """Traces of a classifier and of a generative model."""
    from jumok.interpret.tracing import trace
    from jumok.tasks.runs.load import load

    with tempfile.TemporaryDirectory() as home:
        found = []
        for task, text in (("classification", LINES[0]), ("sequence_to_sequence", LINES[3])):
            loaded = load(write_run(Path(home) / task, task), device="cpu")
            found.append({"trace.safetensors": trace(loaded, text).to_bytes()})
        return list(found)


@cache
def weights() -> list[Files]:
    """Safetensors files of several dtypes."""
    import torch

    from jumok.safetensors_io import serialize

    tensors = {
        "encoder.embedding.weight": torch.arange(12.0).view(4, 3),
        "b": torch.zeros(3, dtype=torch.bfloat16),
        "c": torch.zeros(2, 0, dtype=torch.int64),
        "d": torch.ones(5, dtype=torch.bool),
        "e": torch.ones(5, dtype=torch.float8_e4m3fn),
    }
    return [
        {"model.safetensors": serialize(tensors, {"tied": '{"a": "b"}'})},
        {"model.safetensors": serialize({"x": torch.zeros(2)})},
    ]


@cache
def vocabularies() -> list[Files]:
    """Vocabularies of each kind."""
    kinds = [("unigram", False), ("bpe", False), ("char", False), ("unigram", True)]
    return [{"vocabulary.model": vocabulary_bytes(*kind)} for kind in kinds]


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_CHARACTERS = tuple(sorted({sign for line in LINES for sign in line if sign != " "}))


@cache
def tokenizers() -> list[Files]:
    """Folders of tokenizers: WordPiece, byte-level BPE, Unigram, Marian, and tokenizer.json."""
    pieces = (*_SPECIAL, *_CHARACTERS, *(f"##{sign}" for sign in _CHARACTERS))
    bert = {
        "vocab.txt": "\n".join(pieces).encode() + b"\n",
        "config.json": _json({"model_type": "bert", "vocab_size": len(pieces)}),
        "tokenizer_config.json": _json(
            {"do_lower_case": False, "model_max_length": 40, "cls_token": "[CLS]"}
        ),
        "special_tokens_map.json": _json({"unk_token": "[UNK]", "mask_token": "[MASK]"}),
        "added_tokens.json": _json({"<new>": len(pieces)}),
    }
    return [bert, _bert_json(pieces), *_byte_levels(), _unigram(), _marian()]


def _bert_json(pieces: tuple[str, ...]) -> Files:
    state = {
        "version": "1.0",
        "truncation": {
            "direction": "Right", "max_length": 40, "strategy": "LongestFirst", "stride": 0
        },
        "padding": None,
        "added_tokens": [
            {
                "id": i, "content": piece, "single_word": False, "lstrip": False,
                "rstrip": False, "normalized": False, "special": True,
            }
            for i, piece in enumerate(_SPECIAL)
        ],
        "normalizer": {
            "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
            "strip_accents": None, "lowercase": False,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
            ],
            "pair": [
                {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 1}},
            ],
            "special_tokens": {
                "[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]},
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": {piece: i for i, piece in enumerate(pieces)},
        },
    }  # fmt: skip
    return {
        "tokenizer.json": _json(state),
        "config.json": _json({"model_type": "xglm", "vocab_size": len(pieces)}),
    }


def _byte_levels() -> list[Files]:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    learnt = Tokenizer(models.BPE())
    learnt.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    learnt.decoder = decoders.ByteLevel()
    learnt.post_processor = processors.ByteLevel(trim_offsets=True)
    trainer = trainers.BpeTrainer(
        vocab_size=290,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    learnt.train_from_iterator(LINES, trainer)
    state = json.loads(learnt.to_str())
    merges = [" ".join(pair) for pair in state["model"]["merges"]]
    vocab = state["model"]["vocab"]
    config = {"vocab_size": len(vocab), "decoder_start_token_id": 2}
    return [
        {
            "vocab.json": _json(vocab),
            "merges.txt": "\n".join(["#version: 0.2", *merges]).encode() + b"\n",
            "config.json": _json(config | {"model_type": "roberta"}),
        },
        {"tokenizer.json": _json(state), "config.json": _json(config | {"model_type": "xglm"})},
    ]


def _unigram() -> Files:
    return {
        "spiece.model": sentencepiece_bytes(),
        "config.json": _json({"model_type": "t5", "vocab_size": 160}),
        "tokenizer_config.json": _json({"extra_ids": 100, "legacy": False}),
    }


def _marian() -> Files:
    model = sentencepiece_bytes()
    from jumok.text.sentencepiece_proto import read_model

    ids = {piece: i for i, piece in enumerate((*read_model(model).pieces, "<pad>"))}
    return {
        "source.spm": model,
        "target.spm": model,
        "vocab.json": _json({piece: i for piece, i in ids.items() if piece != "<s>"}),
        "config.json": _json({"model_type": "marian", "vocab_size": len(ids)}),
        "tokenizer_config.json": _json({"source_lang": "ko", "separate_vocabs": False}),
    }


@cache
def sentencepiece_bytes() -> bytes:
    """A model trained by SentencePiece, with its normalization table."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, vocab_size=60, pad_id=0, eos_id=1,
        unk_id=2, bos_id=-1, hard_vocab_limit=False, minloglevel=2, num_threads=1,
    )  # fmt: skip
    return model.getvalue()


CONFIGS: Mapping[str, Mapping[str, object]] = {
    "bert": {
        "model_type": "bert", "architectures": ["BertForSequenceClassification"],
        "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 20,
        "intermediate_size": 8, "max_position_embeddings": 12, "hidden_act": "gelu",
        "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_dropout_prob": 0.1,
        "id2label": {"0": "no", "1": "yes"}, "label2id": {"no": 0, "yes": 1}, "pad_token_id": 0,
    },
    "gpt2": {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 8, "n_layer": 1,
        "n_head": 2, "vocab_size": 20, "n_positions": 12, "activation_function": "gelu_new",
    },
    "t5": {
        "model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 8,
        "d_kv": 4, "num_heads": 2, "d_ff": 8, "num_layers": 1, "vocab_size": 20,
        "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False,
        "relative_attention_num_buckets": 8, "decoder_start_token_id": 0,
    },
    "bart": {
        "model_type": "bart", "architectures": ["BartForConditionalGeneration"], "d_model": 8,
        "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8,
        "vocab_size": 20, "max_position_embeddings": 12, "eos_token_id": 2,
    },
}  # fmt: skip


@cache
def configs() -> list[Files]:
    """The config.json of four families, each with an index of tensors in two files."""
    import torch

    from jumok.safetensors_io import serialize

    index = {"weight_map": {"a.weight": "model-1.safetensors", "b": "model-2.safetensors"}}
    generation = {"num_beams": 4, "max_length": 12, "bad_words_ids": [[1]], "eos_token_id": 2}
    return [
        {
            "config.json": _json(config),
            "generation_config.json": _json(generation),
            "model.safetensors.index.json": _json(index | {"metadata": {"total_size": 8}}),
            "model-1.safetensors": serialize({"a.weight": torch.zeros(1)}),
            "model-2.safetensors": serialize({"b": torch.ones(1)}),
        }
        for config in CONFIGS.values()
    ]


def manifests() -> list[Files]:
    """The manifest of a checkpoint."""
    from jumok.training.checkpoints.manifest import JSON, FileRecord, Manifest

    record = FileRecord(128, hashlib.sha256(b"").hexdigest())
    metadata: dict[str, JSON] = {
        "recipe": "numbers",
        "best": 0.5,
        "rng": [1, 2],
        "at": {"epoch": 1, "none": None},
    }
    manifest = Manifest(40, {"state-model.safetensors": record}, metadata)
    return [{"manifest.json": manifest.to_bytes()}]


def reports() -> list[Files]:
    """The metrics.jsonl of a training."""
    train = {
        "kind": "train", "step": 10, "epoch": 0.5, "loss": 0.7, "learning_rate": 1e-4,
        "tokens_per_second": 9000.0, "seconds": 3.0,
    }  # fmt: skip
    dev = {
        "kind": "dev", "step": 20, "epoch": 1.0, "loss": 0.6, "score": 0.8, "metric": "accuracy",
        "seconds": 7.0,
    }  # fmt: skip
    rows = [train, train | {"step": 20}, dev, train | {"step": 30, "loss": None}]
    return [{"metrics.jsonl": b"".join(_json(row) + b"\n" for row in rows)}]


def tables() -> list[Files]:
    """The same few rows in every supported format, compressed and not."""
    rows = [(text, "yes" if i % 2 else "no") for i, text in enumerate(LINES[:5])]
    objects = [{"text": text, "label": label} for text, label in rows]
    tsv = "".join(f"{text}\t{label}\n" for text, label in (("text", "label"), *rows)).encode()
    csv = 'text,label\n"이, 영화 ""정말""",yes\n결말이,no\n'.encode()
    bio = "## 1\tx\n서\tB-LC\n울\tI-LC\n \tO\n가\tO\n\n비\tO\n".encode()
    return [
        {"a.tsv": tsv},
        {"a.csv": csv},
        {"a.jsonl": b"".join(_json(row) + b"\n" for row in objects)},
        {"a.json": _json(objects)},
        {"a.bio": bio},
        {"a.txt": "\n".join(LINES).encode()},
        {"a.tsv.gz": gzip.compress(tsv, mtime=0)},
        {"a.tsv.xz": lzma.compress(tsv)},
        {"a.jsonl.gz": gzip.compress(_json(objects[0]) + b"\n", mtime=0) * 2},
    ]


def archives() -> list[Files]:
    """A zip like those of `torch.save`."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name in ("data.pkl", "byteorder", "data/0", "version"):
            archive.writestr(zipfile.ZipInfo(f"archive/{name}"), b"3\n" * 9)
    return [{"pytorch_model.bin": data.getvalue()}]


def requests() -> list[Files]:
    """Request bodies of the page."""
    bodies: list[object] = [
        {"text": LINES[0], "target": None, "decode": {"beam": 4}, "mute": [["encoder", 0, 1]]},
        {"text": LINES[3], "target": "3 1 5"},
        {
            "trace": "0" * 32, "figure": "attention", "block": "encoder", "layer": 0, "head": 1,
            "width": 3.3, "font_size": 8.0, "title": "t", "format": "svg", "palette": "ink",
        },
    ]  # fmt: skip
    return [{"body.json": _json(body)} for body in bodies]


def states() -> list[Files]:
    """URL fragments and Range headers."""
    return [
        {"state.txt": b"#v=matrix&b=encoder&L=2&H=0&q=7&pin=encoder.0.1~cross.1.3&token=x"},
        {"state.txt": b"bytes=2-5"},
    ]


def patterns() -> list[Files]:
    """Regular expressions for constrained decoding."""
    found = (r"\d{1,3}(,\d{3})*원", "[가-힣 ]{2,8}", "(?:yes|no|아니요)+?", r"[^\W_]*\u0041\x41")
    return [{"pattern.txt": pattern.encode()} for pattern in found]


def texts() -> list[Files]:
    """Input texts."""
    return [{"text.txt": line.encode()} for line in (*LINES, "", "\t", "a\tb", " ".join(LINES))]


def commands() -> list[Files]:
    """Command lines, one argument per line; none of them trains, serves or downloads."""
    lines = (
        "predict\nRUN\n이 영화\n--json", "predict\nRUN\n--n-best\n3\n--decoding\nbeam=2\n삼",
        "evaluate\nRUN\n--data\na.tsv\n--json", "vocab\nencode\nRUN\n한글\n--ids\n--json",
        "vocab\ndecode\nRUN\n5 6 7", "vocab\nreport\nRUN\na.tsv", "--version", "--help\npredict",
        "view\nRUN\n이 영화\n--export\nout.html\n--state\nv=lines&L=0", "view\nx.safetensors",
        "import\nfolder\nout", "check\nnone", "plot\nhistory\nRUN", "average\nRUN\n--last\n2",
        "train\nnone.toml\ntraining.steps=1\n--dry-run", "export\nnone\n--to\nonnx\nout",
    )  # fmt: skip
    return [{"words.txt": line.encode()} for line in lines]
