"""Example texts of the built-in corpora, to try a finished run."""


def examples(corpus: str, *, masked: bool = False) -> list[str]:
    """Texts that are not in the training data of a corpus, with masks; none for a user's files.

    >>> examples("novels")
    ['그는 아무 말도 없이', '어느 날']
    """
    match corpus:
        case "numbers":
            from jumok.data.numbers import examples as number_examples

            return [source for source, _ in number_examples()]
        case "nsmc-text" if masked:
            return ["이 영화 정말 [MASK]", "[MASK] 연기가 최고였다", "시간이 [MASK]... 보지 마세요"]
        case "nsmc-text":
            return ["이 영화 정말", "배우들의 연기가", "솔직히 말해서"]
        case "shakespeare":
            return ["ROMEO:\n", "To be, or not"]
        case "novels":
            return ["그는 아무 말도 없이", "어느 날"]
        case "nsmc":
            return ["이 영화 정말 재미있어요 ㅋㅋ", "시간이 아깝다... 보지 마세요", "그냥 그래요"]
        case "ynat":
            return ["반도체 수출 석 달째 늘어", "국가대표팀 결승 진출…연장전 끝에 역전승"]
        case "question_pair":
            return ["내일 비가 올까요?\t내일 우산이 필요할까요?", "지금 몇 시야?\t점심 뭐 먹지?"]
        case "kornli":
            return ["아이들이 공원에서 놀고 있다.\t아이들이 밖에 있다."]
        case "korsts":
            return ["한 여자가 피아노를 친다.\t여자가 악기를 연주한다."]
        case "klue-ner":
            return ["이순신은 1592년 8월 한산도 앞바다에서 왜군을 크게 이겼다."]
        case _:
            return []
