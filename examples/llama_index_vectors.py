"""The vectors of a jumok model in LlamaIndex.

pip install llama-index-core
python examples/llama_index_vectors.py
"""

from llama_index.core import Document, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from pydantic import PrivateAttr

import jumok.engine


class JumokEmbedding(BaseEmbedding):
    """The vectors of a run, or of a model that ships with jumok, in int8."""

    _model: jumok.engine.EngineModel = PrivateAttr()

    def __init__(self, model_name: str = "ko-small-vectors", embed_batch_size: int = 256) -> None:
        super().__init__(model_name=model_name, embed_batch_size=embed_batch_size)
        self._model = jumok.engine.load(model_name, "int8")

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._model.encode(text).tolist()

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._model.encode(texts).tolist()

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


if __name__ == "__main__":
    texts = ["배송은 이틀 걸립니다", "환불은 7일 안에 됩니다", "매장은 10시에 엽니다"]
    documents = [Document(text=text) for text in texts]
    index = VectorStoreIndex.from_documents(documents, embed_model=JumokEmbedding())
    for found in index.as_retriever(similarity_top_k=1).retrieve("택배가 언제 오나요?"):
        print(f"{found.score:.4f}  {found.text}")
