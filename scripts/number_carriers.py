"""Write the real sentences of the corpus `numbers`, src/jumok/data/numbers/carriers.txt.xz.

    python scripts/number_carriers.py RATINGS_TRAIN LAW COMMON_VOICE

RATINGS_TRAIN is the official file of NSMC; its positive reviews are read. LAW (statutes, one
sentence a line) and COMMON_VOICE (sentences that are read aloud) are plain text; docs/data.md
names their sources. A sentence is kept if it mentions no number in words and has no coarse word.
Files may be compressed with xz.
"""

import lzma
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from random import Random

from jumok.data.numbers.mentions import may_mention_number

OUT = Path(__file__).parents[1] / "src" / "jumok" / "data" / "numbers" / "carriers.txt.xz"
N_REVIEWS, N_LAW = 11_000, 1_200
COARSE = [
    "시발",
    "씨발",
    "씨바",
    "시바",
    "ㅅㅂ",
    "ㅆㅂ",
    "병신",
    "븅신",
    "ㅂㅅ",
    "새끼",
    "새키",
    "색히",
    "색기",
    "좆",
    "좃",
    "존나",
    "졸라",
    "ㅈㄴ",
    "섹",
    "자위",
    "보지",
    "자지",
    "창녀",
    "걸레",
    "미친",
    "지랄",
    "ㅈㄹ",
    "염병",
    "닥쳐",
    "꺼져",
    "뒤져",
    "뒈져",
    "죽어라",
    "죽여",
    "강간",
    "썅",
    "년아",
    "년이",
    "놈",
    "빨갱",
    "홍어",
    "쪽바리",
    "짱깨",
    "게이",
    "레즈",
    "일베",
    "노무현",
    "박근혜",
    "이명박",
    "문재인",
    "박정희",
    "전두환",
    "http",
    "www",
    "@",
    "야동",
    "에로",
    "엉덩",
    "가슴",
    "슴가",
    "몸매",
    "변태",
    "호구",
    "씹",
    "찌질",
    "장애",
    "애미",
    "애비",
    "느금",
    "똥",
    "개독",
    "종교",
    "전라",
    "경상",
    "좌파",
    "우파",
    "빨아",
    "벗",
]


def main() -> None:
    """Read the three files and write the sentences."""
    reviews, law, voice = (list(_lines(Path(name))) for name in sys.argv[1:4])
    random = Random(1)
    cells = [review.split("\t") for review in reviews]
    positive = [text for _, text, label in cells[1:] if label == "1" and not text.startswith('"')]
    kept = list(_kept(positive, 8, 100))
    random.shuffle(kept)
    statutes = sorted(_kept(law, 12, 80))
    random.shuffle(statutes)
    sentences = kept[:N_REVIEWS] + statutes[:N_LAW] + list(_kept(voice, 8, 90))
    text = "\n".join(sentences) + "\n"
    OUT.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{len(sentences):,} sentences, {OUT.stat().st_size:,} bytes")


def _lines(path: Path) -> Iterator[str]:
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as file:
        yield from (line.rstrip("\n") for line in file)


def _kept(texts: list[str], shortest: int, longest: int) -> Iterator[str]:
    """The distinct usable texts of a length, with single spaces."""
    for text in dict.fromkeys(unicodedata.normalize("NFC", " ".join(t.split())) for t in texts):
        usable = shortest <= len(text) <= longest and any("가" <= c <= "힣" for c in text)
        if usable and not may_mention_number(text) and not any(word in text for word in COARSE):
            yield text


if __name__ == "__main__":
    main()
