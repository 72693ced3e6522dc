"""Copy the terms of docs/glossary.md and the titles of the course into the page.

Run `python web/scripts/terms.py` after changes to either, then build the page. Of the glossary, the
page has the rows with a meaning in Korean.
"""

import json
from pathlib import Path

from jumok.course.lesson import LANGUAGES, lessons

WEB = Path(__file__).parents[1]
GLOSSARY = WEB.parent / "docs" / "glossary.md"
TERMS = WEB / "src" / "shell" / "terms.json"
LESSONS = WEB / "src" / "views" / "calculation" / "lessons.json"


def terms() -> list[dict[str, dict[str, str]]]:
    """Each term and its meaning, in English and Korean.

    >>> terms()[0]["term"]
    {'en': 'attention', 'ko': '어텐션'}
    """
    found = []
    for line in GLOSSARY.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 5 or not cells[3] or cells[3] == "뜻" or set(cells[3]) == {"-"}:
            continue
        term, korean, meaning, korean_meaning, _ = cells
        found.append(
            {
                "term": {"en": term, "ko": korean},
                "meaning": {"en": meaning, "ko": korean_meaning},
            }
        )
    return found


def titles() -> dict[str, dict[str, str]]:
    """The title of each lesson of the course by its number, in both languages."""
    return {
        str(each.number): {language: each.title(language) for language in LANGUAGES}
        for each in lessons()
    }


if __name__ == "__main__":
    for path, content in ((TERMS, terms()), (LESSONS, titles())):
        text = json.dumps(content, ensure_ascii=False, indent=1)
        path.write_text(text + "\n", encoding="utf-8")
