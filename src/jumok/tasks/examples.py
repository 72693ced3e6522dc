"""A few texts to try a run on: of a built-in corpus its own, otherwise none."""

from jumok.tasks.recipe import Recipe


def examples(recipe: Recipe) -> list[str]:
    """Texts that were never trained on; empty when the data are somebody's own."""
    match recipe.data.corpus:
        case "numbers":
            from jumok.data.numbers import examples as spoken

            return [source for source, _ in spoken()]
        case "nsmc-text" if recipe.task == "masked_language_modeling":
            return ["이 영화 정말 [MASK]", "[MASK] 연기가 최고였다", "시간이 [MASK]... 보지 마세요"]
        case "nsmc":
            return ["이 영화 정말 재미있어요 ㅋㅋ", "시간이 아깝다... 보지 마세요", "그냥 그래요"]
        case _:
            return []
