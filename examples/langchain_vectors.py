"""The vectors of a jumok model in LangChain.

pip install langchain-core
python examples/langchain_vectors.py
"""

from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

import jumok.engine


class JumokEmbeddings(Embeddings):
    """The vectors of a run, or of a model that ships with jumok, in int8."""

    def __init__(self, model: str = "ko-small-vectors") -> None:
        self.model = jumok.engine.load(model, "int8")

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.model.encode(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        return self.model.encode(text).tolist()


if __name__ == "__main__":
    store = InMemoryVectorStore(JumokEmbeddings())
    store.add_texts(["배송은 이틀 걸립니다", "환불은 7일 안에 됩니다", "매장은 10시에 엽니다"])
    for document, score in store.similarity_search_with_score("택배가 언제 오나요?", k=1):
        print(f"{score:.4f}  {document.page_content}")
