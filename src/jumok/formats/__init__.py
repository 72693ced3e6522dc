"""File formats of other libraries: GGUF, PEFT, CTranslate2, ONNX, sentence-transformers."""
