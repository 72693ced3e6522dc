"""Tokenizers of imported models, read from their own files, with their own templates.

    tokenizer = load_tokenizer(Path("klue-bert"), {"model_type": "bert"})
    tokenizer.encode_with_special_tokens("질문", "대답").ids  # [CLS] 질문 [SEP] 대답 [SEP]

The ids are those of AutoTokenizer of transformers, which is not imported.
"""

from jumok.text.pretrained.load import load_tokenizer
from jumok.text.pretrained.tokenizer import PretrainedTokenizer
from jumok.text.template import TemplateOutput

__all__ = ["PretrainedTokenizer", "TemplateOutput", "load_tokenizer"]
