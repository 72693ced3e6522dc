"""Tiny folders in the format of Hugging Face: a random model and a tokenizer of tiny texts.

Each function fills a folder with what people find on the Hub: a model of transformers with every
weight drawn anew, and the files of its family's tokeniser.
"""

import io
import json
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from tests.pretrained.hf_variants import EXAONE_CONFIG, EXAONE_NAMES, randomize
from tests.tasks.tiny_jobs import tag_rows
from tests.tiny_runs import readings, reviews

DIMENSIONS = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 40,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
BART = {
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40,
    "max_position_embeddings": 40,
    "dropout": 0.0,
}
END = "<|endoftext|>"


@cache
def lines() -> tuple[str, ...]:
    """Reviews, digits spoken and written, names and places."""
    pairs = readings(60, 0)
    texts = [text for text, _ in reviews(80, 0)] + [text for text, _ in tag_rows(60, 0)]
    return (*texts, *(spoken for spoken, _ in pairs), *(written for _, written in pairs))


def bert(
    folder: Path,
    head: str = "ForMaskedLM",
    labels: Sequence[str] = (),
    dtype: torch.dtype = torch.float32,
    **settings: Any,
) -> Any:
    """klue/bert-base with this head."""
    size = _wordpiece(folder)
    return _saved(folder, "Bert", head, DIMENSIONS | {"vocab_size": size} | settings, labels, dtype)


def kobert(folder: Path, kind: str = "monologg") -> Any:
    """monologg/kobert, skt/kobert-base-v1 or ("distil") monologg/distilkobert."""
    special = ["[CLS]", "[SEP]", "[MASK]"]
    names = {"unk_piece": "[UNK]", "pad_piece": "[PAD]"}
    ids = {"unk_id": 0, "pad_id": 1, "bos_id": -1, "eos_id": -1}
    numbers = ["3,500원과 1,000원", "12, 13, 14, 15"] * 5
    data = spm((*lines(), *numbers), size=300, user_defined_symbols=special, **names, **ids)
    processor = sentencepiece.SentencePieceProcessor(model_proto=data)
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "skt":
        (folder / "spiece.model").write_bytes(data)
        settings = {"tokenizer_class": "XLNetTokenizer", "do_lower_case": False}
        settings |= {"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
        _write(folder, "tokenizer_config.json", settings)
    else:
        (folder / "tokenizer_78b3253a26.model").write_bytes(data)
        first = pieces[:5] + sorted(pieces[5:])  # not the order of the model
        (folder / "vocab.txt").write_text("\n".join(first) + "\n", encoding="utf-8")
        settings = {"tokenizer_class": "KoBertTokenizer", "do_lower_case": False}
        _write(folder, "tokenizer_config.json", settings | {"model_max_length": 512})
    if kind == "distil":
        measures = {"vocab_size": len(pieces), "dim": 24, "n_layers": 2, "n_heads": 3}
        more = {"hidden_dim": 40, "max_position_embeddings": 40, "pad_token_id": 1}
        return _saved(folder, "DistilBert", "ForMaskedLM", measures | more)
    measures = DIMENSIONS | {"vocab_size": len(pieces), "pad_token_id": 1}
    return _saved(folder, "Bert", "ForMaskedLM", measures)


def klue_roberta(folder: Path, head: str = "ForMaskedLM", labels: Sequence[str] = ()) -> Any:
    """klue/roberta-base: a RoBERTa that reads BERT's pieces."""
    size = _wordpiece(folder)
    settings = DIMENSIONS | {"vocab_size": size, "type_vocab_size": 1, "pad_token_id": 0}
    return _saved(folder, "Roberta", head, settings | {"tokenizer_class": "BertTokenizer"}, labels)


def roberta(
    folder: Path, head: str = "ForMaskedLM", labels: Sequence[str] = (), **settings: Any
) -> Any:
    """roberta-base: byte-level BPE."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    size = _byte_level(folder, special)
    mask = {"content": "<mask>", "lstrip": True, "rstrip": False, "normalized": False}
    _write(folder, "special_tokens_map.json", {"mask_token": mask | {"single_word": False}})
    measures = DIMENSIONS | {"vocab_size": size, "type_vocab_size": 1, "pad_token_id": 1}
    return _saved(folder, "Roberta", head, measures | settings, labels)


def gpt2(folder: Path, head: str = "LMHeadModel", **settings: Any) -> Any:
    """gpt2: a language model with byte-level BPE."""
    size = _byte_level(folder, [END])
    measures = {"vocab_size": size, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 40}
    ends = {"bos_token_id": 0, "eos_token_id": 0, "resid_pdrop": 0.0, "embd_pdrop": 0.0}
    measures |= ends | {"attn_pdrop": 0.0}
    return _saved(folder, "GPT2", head, measures | settings)


LLAMA_CONFIGS = {
    "llama": ("Llama", "ForCausalLM"),
    "mistral": ("Mistral", "ForCausalLM"),
    "qwen2": ("Qwen2", "ForCausalLM"),
    "qwen3": ("Qwen3", "ForCausalLM"),
    "gemma3_text": ("Gemma3Text", "Gemma3ForCausalLM"),
    "exaone4": ("Exaone4", "ForCausalLM"),
}


def llama(folder: Path, family: str = "llama", *, chat: bool = False, **settings: Any) -> Any:
    """A decoder of the Llama family with byte-level BPE: grouped heads, windows where it has them.

    Like real files, the tokenizer is a tokenizer.json of no class of its own.
    """
    from tokenizers import decoders

    end = END
    special = [end, "<|im_start|>", "<|im_end|>"] if chat else [end]
    tokenizer = _trained_byte_level(special, family)
    tokenizer.decoder = decoders.ByteLevel()
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": end, "pad_token": end}
    _write(folder, "tokenizer_config.json", names)
    measures = {"vocab_size": tokenizer.get_vocab_size(), "hidden_size": 24, "head_dim": 8}
    measures |= {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    measures |= {"intermediate_size": 40, "max_position_embeddings": 40, "sliding_window": 6}
    measures |= {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    if family == "gemma3_text":
        measures |= {"sliding_window_pattern": 2, "query_pre_attn_scalar": 8}
    if family in ("qwen2", "qwen3"):
        measures |= {"use_sliding_window": True, "max_window_layers": 1}
    if family == "qwen2":
        measures.pop("head_dim")
    if family == "exaone4":
        measures |= {"sliding_window_pattern": 2}
    if family in ("llama", "exaone"):
        measures.pop("sliding_window")
    name, head = LLAMA_CONFIGS["llama" if family == "exaone" else family]
    model = _saved(folder, name, head, measures | settings)
    if family == "exaone":
        as_exaone(folder)
    return model


def as_exaone(folder: Path) -> None:
    """Rename the tensors and the keys of a Llama folder to those of EXAONE 3.5."""
    path = folder / "config.json"
    config, tensors = json.loads(path.read_text()), load_file(folder / "model.safetensors")
    names = {name: name for name in tensors}
    for pattern, replacement in EXAONE_NAMES:
        names = {name: re.sub(pattern, replacement, new) for name, new in names.items()}
    for change in EXAONE_CONFIG:
        change(config, tensors)
    config["num_layers"] = 2
    path.write_text(json.dumps(config))
    renamed = {names[name]: tensor for name, tensor in tensors.items()}
    save_file(renamed, folder / "model.safetensors", {"format": "pt"})


def t5(folder: Path, head: str = "ForConditionalGeneration", **settings: Any) -> Any:
    """pko-t5 and similar models, with 100 extra ids and some extra rows."""
    data = spm(lines(), size=260, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spiece.model").write_bytes(data)
    measures = {"vocab_size": 368, "d_model": 24, "d_kv": 7, "d_ff": 40, "num_layers": 2}
    measures |= {"num_heads": 3, "dropout_rate": 0.0, "decoder_start_token_id": 0}
    return _saved(folder, "T5", head, measures | settings)


def bart(folder: Path, **settings: Any) -> Any:
    """facebook/bart: RoBERTa's tokenizer."""
    size = _byte_level(folder, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    measures = BART | {"vocab_size": size, "decoder_start_token_id": 2}
    return _saved(folder, "Bart", "ForConditionalGeneration", measures | settings)


def marian(folder: Path, separate: bool = False, **settings: Any) -> Any:
    """opus-mt-ko-en: two tokenizers, one vocabulary; `separate`: a vocabulary for each side."""
    spoken, written = zip(*readings(60, 0), strict=True)
    source = spm(spoken, size=30)
    target = spm(written, size=20)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    first = _ids(source) if separate else _ids(source, target)
    _write(folder, "vocab.json", first)
    pad = first["<pad>"]
    measures = BART | {"vocab_size": len(first), "scale_embedding": True, "eos_token_id": 0}
    measures |= {"pad_token_id": pad, "decoder_start_token_id": pad}
    if separate:
        second = _ids(target)
        _write(folder, "target_vocab.json", second)
        _write(folder, "tokenizer_config.json", {"separate_vocabs": True})
        measures |= {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": len(second)}
    return _saved(folder, "Marian", "MTModel", measures | settings)


def other_encoder(folder: Path, family: str, head: str = "ForMaskedLM") -> Any:
    """A model of another family that reads BERT's pieces: Electra, MegatronBert, XLMRoberta."""
    size = _wordpiece(folder)
    settings = DIMENSIONS | {"vocab_size": size, "tokenizer_class": "BertTokenizer"}
    more = {"type_vocab_size": 1, "pad_token_id": 0} if family == "XLMRoberta" else {}
    return _saved(folder, family, head, settings | more)


def modernbert(
    folder: Path, head: str = "ForMaskedLM", labels: Sequence[str] = (), **settings: Any
) -> Any:
    """A.X-Encoder and Ettin: byte-level BPE in a tokenizer.json, [CLS] A [SEP]."""
    from tokenizers import processors

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = _trained_byte_level(special)
    ends = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=ends
    )
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {f"{piece.strip('[]').lower()}_token": piece for piece in special}
    inputs = {"model_input_names": ["input_ids", "attention_mask"]}
    names |= {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 38}
    _write(folder, "tokenizer_config.json", names | inputs)
    ids = {"pad_token_id": 0, "cls_token_id": 2, "bos_token_id": 2, "sep_token_id": 3}
    measures = {"vocab_size": tokenizer.get_vocab_size(), "hidden_size": 24, "eos_token_id": 3}
    measures |= {"num_hidden_layers": 4, "num_attention_heads": 3, "intermediate_size": 40}
    measures |= {"max_position_embeddings": 40, "local_attention": 8}
    return _saved(folder, "ModernBert", head, measures | ids | settings, labels)


def deberta(
    folder: Path, head: str = "ForMaskedLM", labels: Sequence[str] = (), **settings: Any
) -> Any:
    """kf-deberta: disentangled attention with BERT's pieces."""
    size = _wordpiece(folder)
    measures = DIMENSIONS | {"vocab_size": size, "tokenizer_class": "BertTokenizer"}
    measures |= {"relative_attention": True, "position_buckets": 8, "share_att_key": True}
    measures |= {"pos_att_type": ["p2c", "c2p"], "norm_rel_ebd": "layer_norm"}
    measures |= {"position_biased_input": False, "type_vocab_size": 0, "pad_token_id": 0}
    return _saved(folder, "DebertaV2", head, measures | settings, labels)


def distilbert(folder: Path) -> Any:
    """distilbert-base."""
    size = _wordpiece(folder)
    measures = {"vocab_size": size, "dim": 24, "n_layers": 2, "n_heads": 3, "hidden_dim": 40}
    more = {"max_position_embeddings": 40, "tokenizer_class": "BertTokenizer"}
    return _saved(folder, "DistilBert", "ForMaskedLM", measures | more)


def other_encoder_decoder(folder: Path, family: str) -> Any:
    """MBart or Pegasus with BART's tokenizer."""
    size = _byte_level(folder, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    measures = BART | {"vocab_size": size, "decoder_start_token_id": 2, "eos_token_id": 2}
    settings = measures | {"pad_token_id": 1, "tokenizer_class": "BartTokenizer"}
    return _saved(folder, family, "ForConditionalGeneration", settings)


def mt5(folder: Path) -> Any:
    """google/mt5: a T5 with gated layers."""
    t5(folder)
    for name in ("config.json", "model.safetensors"):
        (folder / name).unlink()
    measures = {"vocab_size": 368, "d_model": 24, "d_kv": 7, "d_ff": 40, "num_layers": 2}
    measures |= {"num_heads": 3, "decoder_start_token_id": 0}
    more = {"tokenizer_class": "T5Tokenizer", "feed_forward_proj": "gated-gelu"}
    return _saved(folder, "MT5", "ForConditionalGeneration", measures | more)


def with_untied_head(folder: Path, make: Callable[[Path], Any]) -> Path:
    """The same folder with an untied output weight: v1.1 of T5, pko-t5."""
    tensors = make(folder).state_dict()
    head = torch.randn(tensors["shared.weight"].shape, generator=torch.Generator().manual_seed(1))
    kept = {name: tensors[name] for name in load_file(folder / "model.safetensors")}
    save_file(kept | {"lm_head.weight": head}, folder / "model.safetensors", {"format": "pt"})
    return folder


def without_tokenizer(folder: Path) -> Path:
    """The same folder with only the files of the model."""
    kept = ("config.json", "generation_config.json", "model.safetensors")
    for path in folder.iterdir():
        if path.name not in kept:
            path.unlink()
    return folder


def spm(texts: Sequence[str], size: int, **options: object) -> bytes:
    """A SentencePiece unigram model."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        vocab_size=size,
        hard_vocab_limit=False,
        character_coverage=1.0,
        num_threads=1,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


def _ids(*data: bytes) -> dict[str, int]:
    """vocab.json as in opus-mt: </s>, <unk>, and the pieces in order."""
    pieces: set[str] = set()
    for model in data:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces |= {processor.id_to_piece(i) for i in range(3, processor.get_piece_size())}
    return {piece: i for i, piece in enumerate(["</s>", "<unk>", "<pad>", *sorted(pieces)])}


def _wordpiece(folder: Path) -> int:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(lines(), trainer)
    ids = tokenizer.get_vocab()
    folder.mkdir(parents=True, exist_ok=True)
    pieces = sorted(ids, key=ids.__getitem__)
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    settings = {"do_lower_case": False, "tokenizer_class": "BertTokenizer"}
    _write(folder, "tokenizer_config.json", settings | {"model_max_length": 38})
    return len(pieces)


def _byte_level(folder: Path, special: list[str]) -> int:
    tokenizer = _trained_byte_level(special)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.model.save(str(folder))
    return tokenizer.get_vocab_size()


def _trained_byte_level(special: list[str], family: str = "") -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if family == "qwen2":
        from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

        # AutoTokenizer splits as Qwen2 does, whatever the file contains
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines(), trainer)
    return tokenizer


def _saved(
    folder: Path,
    family: str,
    head: str,
    settings: dict[str, Any],
    labels: Sequence[str] = (),
    dtype: torch.dtype = torch.float32,
) -> Any:
    """The model in eval mode, saved to the folder."""
    import transformers

    config_values = dict(settings)
    generation = config_values.pop("generation", {})
    if labels:
        config_values["id2label"] = dict(enumerate(labels))
        config_values["label2id"] = {label: i for i, label in enumerate(labels)}
    config = getattr(transformers, f"{family}Config")(**config_values)
    cls = head if hasattr(transformers, head) else f"{family}{head}"
    model = randomize(getattr(transformers, cls)(config).to(dtype).eval(), seed=0)
    if model.can_generate():
        model.generation_config = transformers.GenerationConfig(
            **model.generation_config.to_diff_dict() | generation
        )
    model.save_pretrained(folder)
    return model


def _write(folder: Path, name: str, tree: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(tree, ensure_ascii=False), encoding="utf-8")
