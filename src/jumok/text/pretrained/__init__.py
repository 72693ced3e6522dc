"""Tokenisers of other people's models: read from their own files, with their own framing.

    vocabulary = read_vocabulary(Path("klue-bert"), {"model_type": "bert"})
    vocabulary.encode_framed("질문", "대답").ids  # [CLS] 질문 [SEP] 대답 [SEP]

The ids are those of AutoTokenizer of transformers, which is not needed here.
"""

from jumok.text.pretrained.load import read_vocabulary
from jumok.text.pretrained.tokenizer import PretrainedVocabulary
from jumok.text.template import Framed

__all__ = ["Framed", "PretrainedVocabulary", "read_vocabulary"]
