"""Build the site: generate the sources of its pages, then run Sphinx on them.

    python docs/site/build.py [--out build/site]

Pages: the lessons in both languages, the guides in docs/site/pages, the documents of docs/, and a
reference made of the docstrings. Warnings are errors.
"""

import argparse
import re
import shutil
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

from PIL import Image
from sphinx.cmd.build import main as sphinx

from jumok.course import LANGUAGES, Cell, Language, Lesson, lessons, note_trace
from jumok.course.lesson import TraceView, file_pieces
from jumok.course.plain import NOTE, ROLE

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SOURCE = ROOT / "src" / "jumok"
PICTURES = ROOT / "docs" / "images" / "lessons"
PACKAGES = ("nn", "models", "decoding")  # their modules, not subpackages
PUBLIC = ("jumok", "jumok.decoding", "jumok.interpret")  # the modules of the names they export
MODULES = (
    "errors",
    "interpret.leave_one_out",
    "native.quantize",
    "tasks.runs.run",
    "tasks.runs.train",
    "text.tokenizer",
    "training.config",
)
DOCUMENTS = (
    "commands",
    "glossary",
    "benchmarks",
    "python",
    "nn",
    "recipes",
    "data",
    "numbers",
    "input",
    "output",
    "decoding",
    "translation",
    "pretrained",
    "export",
    "serving",
    "check",
    "view",
    "trace",
    "figures",
    "experiments",
    "circuits",
    "distributed",
    "trust",
    "speedrun",
)
ENGLISH = ("en", "reference", "api", "_modules")  # folders of pages in English
LABELS = {"사이트 차례": "Site contents", "이 페이지의 차례": "Contents of this page"}
THEME = {"On this page": "이 페이지", "Previous": "이전", "Next": "다음", "Home": "처음"}
FOLDERS: dict[Language, str] = {"ko": "lessons", "en": "en/lessons"}
WORDS = {
    "ko": {
        "answer": "답 보기",
        "output": "출력",
        "page": "note 모델의 화면",
        "large": "새 창에서 크게 보기",
        "other": "English",
        "notebook": "노트북으로",
        "course": "강의",
        "terminal": "터미널에서",
    },
    "en": {
        "answer": "Show the answer",
        "output": "Output",
        "page": "The page of the model note",
        "large": "Open it in a window of its own",
        "other": "한국어",
        "notebook": "As a notebook",
        "course": "Course",
        "terminal": "In a terminal",
    },
}


def main() -> int:
    """Write the sources to OUT-source and the site to OUT."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--out", type=Path, default=ROOT / "build" / "site")
    out = arguments.parse_args().out.resolve()
    source = out.with_name(out.name + "-source")
    for folder in (source, out):
        shutil.rmtree(folder, ignore_errors=True)
    write_sources(source)
    options = ["-b", "html", "-c", str(HERE), "-W", "--keep-going", "-q", "-E"]
    code = sphinx(
        [*options, "-d", str(out.with_name(out.name + "-doctrees")), str(source), str(out)]
    )
    if code == 0:
        for path in out.rglob("*.html"):
            text = smaller(accessible(path.read_text(encoding="utf-8")))
            path.write_text(in_language(text, path.relative_to(out)), encoding="utf-8")
        for path in out.rglob("*.map"):
            path.unlink()
        note_trace().html(out / "note.html", live=True)
        print(out / "index.html")
    return code


def write_sources(source: Path) -> None:
    """Every page as MyST Markdown or reStructuredText, and the files that they show."""
    shutil.copytree(HERE / "pages", source)
    for lesson in lessons():
        for language in LANGUAGES:
            path = source / FOLDERS[language] / f"{lesson.path.stem}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(lesson_page(lesson, language), encoding="utf-8")
    for language in LANGUAGES:
        write_contents(source / FOLDERS[language] / "index.md", language)
    for name in documents():
        path = source / "reference" / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
        path.write_text(document_page(text), encoding="utf-8")
    copy_images(ROOT / "docs" / "images", source / "reference" / "images")
    copy_images(PICTURES, source / "pictures")
    shutil.copytree(ROOT / "docs" / "notebooks", source / "reference" / "notebooks")
    write_reference(source / "api")


def accessible(html: str) -> str:
    """A page of the theme with the attributes that assistive technology needs.

    Levels of headings, names of the two sidebars, and code that the keyboard can scroll.
    """
    for old, new in (
        ('role="heading"', 'role="heading" aria-level="2"'),
        ('<aside class="sidebar-drawer"', '<aside class="sidebar-drawer" aria-label="사이트 차례"'),
        ('<aside class="toc-drawer', '<aside aria-label="이 페이지의 차례" class="toc-drawer'),
        ("<pre>", '<pre tabindex="0">'),
        ('<div id="search-results">', '<h1 class="hidden">검색</h1><div id="search-results">'),
    ):
        html = html.replace(old, new)
    return html


def in_language(html: str, path: Path) -> str:
    """A page that names the language of its text, with the words of the theme in Korean.

    The theme has no Korean; the documents and the reference are English.
    """
    if path.parts[0] in ENGLISH:
        html = html.replace('lang="ko"', 'lang="en"', 1)
        for korean, english in LABELS.items():
            html = html.replace(f'aria-label="{korean}"', f'aria-label="{english}"')
        return html
    for english, korean in THEME.items():
        html = re.sub(rf"(>\s*){english}(\s*<)", rf"\g<1>{korean}\2", html)
    return html


def smaller(html: str) -> str:
    """A page without indentation outside code, and without the marks of words and names in code.

    Both styles print names, punctuation and spaces in the color of the text. Icons that the page
    does not use are left out.
    """
    html = re.sub(r'<span class="pre">([^<]*)</span>', r"\1", html)
    html = re.sub(r'<span class="(?:n|p|w)">([^<]*)</span>', r"\1", html)
    parts = re.split(r"(<pre.*?</pre>)", html, flags=re.DOTALL)
    parts[::2] = [re.sub(r"\n\s+", "\n", part) for part in parts[::2]]
    html = "".join(parts)
    for icon in re.findall(r'<symbol id="([^"]+)"', html):
        if f'#{icon}"' not in html:
            html = re.sub(rf'<symbol id="{icon}".*?</symbol>\n?', "", html, flags=re.DOTALL)
    return html


def picture_file(lesson: Lesson, cell: Cell, language: Language) -> Path:
    """What a cell of a lesson draws, as recorded by `python -m tests.course.record`."""
    return PICTURES / f"{lesson.path.stem}.{cell.name.removeprefix('picture-')}.{language}.png"


def copy_images(images: Path, folder: Path) -> None:
    """The images of a folder with at most 64 colours, which makes them a third of the size."""
    folder.mkdir()
    for path in images.glob("*.png"):
        Image.open(path).convert("RGB").quantize(64).save(folder / path.name, optimize=True)


def documents() -> list[str]:
    """The documents of docs/ that exist; notes.md maps the notes to the lessons."""
    return [name for name in ("notes", *DOCUMENTS) if (ROOT / "docs" / f"{name}.md").is_file()]


def lesson_page(lesson: Lesson, language: Language) -> str:
    """A lesson as MyST Markdown: cells as code with their output, roles as links."""
    lines = [_line(line, lesson, language) for line in lesson.markdown(language).splitlines()]
    words, other = WORDS[language], LANGUAGES[1 - LANGUAGES.index(language)]
    up = "../" * (FOLDERS[language].count("/") + 1)
    links = (
        f"[{words['other']}](/{FOLDERS[other]}/{lesson.path.stem}.md) · "
        f"{words['terminal']}: `jumok lesson {lesson.number} --lang {language}` · "
        f"{words['notebook']}: `jumok lesson {lesson.number} --lang {language} --notebook "
        f"{lesson.path.stem}.ipynb`"
    )
    title = f"# {lesson.number}. {lesson.title(language)}"
    text = "\n".join([title, "", links, *lines[1:], ""])
    return text.replace("@UP@", up)


def _line(line: str, lesson: Lesson, language: Language) -> str:
    if not (found := re.match(r"^\{(cell|trace|file)\} *(.*?) *$", line)):
        return ROLE.sub(lambda role: _link(*role.groups(), language), line)
    kind, name = found.groups()
    if kind == "file":
        return f"```python\n{file_pieces()[name]}\n```\n"
    if kind == "cell":
        return _cell(lesson, lesson.cells[name], language)
    words, address = WORDS[language], f"@UP@note.html#{TraceView(name).state}&lang={language}"
    return _raw(
        f'<iframe class="trace" loading="lazy" title="{words["page"]}" src="{address}"></iframe>\n'
        f'<p class="large"><a href="{address}" target="_blank">{words["large"]}</a></p>'
    )


def _cell(lesson: Lesson, cell: Cell, language: Language) -> str:
    words, output = WORDS[language], lesson.outputs[cell.name].rstrip("\n")
    code = f"```python\n{cell.shown}\n```\n"
    shown = f"```{{code-block}} text\n:class: cell-output\n\n{output}\n```\n" if output else ""
    if cell.is_picture:
        picture = picture_file(lesson, cell, language).name
        return f"{code}\n![{cell.name}](/pictures/{picture})\n"
    if cell.answer is None and not cell.is_solution:
        return code + "\n" + shown
    summary = _raw(f'<details class="answer"><summary>{words["answer"]}</summary>')
    solution = cell.source if cell.is_solution else f"guess = {cell.answer}"
    answer = f"```python\n{solution}\n```\n"
    code = "" if cell.is_solution else code
    return "\n".join([code, summary, answer, shown, _raw("</details>")])


def _raw(html: str) -> str:
    return f"```{{raw}} html\n{html}\n```\n"


def _link(kind: str, target: str, language: Language) -> str:
    if kind == "jumok":
        role = "py:mod" if f"jumok.{target}" in modules() else "py:obj"
        return f"{{{role}}}`jumok.{target} <jumok.{resolved(target)}>`"
    if kind == "note":
        text = f"{NOTE[language]} {target}"
        here = (ROOT / "docs" / "notes.md").is_file()
        return f"[{text}](/reference/notes.md#note-{target})" if here else text
    text = f"{int(target)}강" if language == "ko" else f"lesson {int(target)}"
    known = {lesson.number: lesson for lesson in lessons()}
    if int(target) not in known:
        return text
    return f"[{text}](/{FOLDERS[language]}/{known[int(target)].path.stem}.md)"


def resolved(target: str) -> str:
    """The path at which the reference documents an object that a package only exports."""
    from importlib import import_module

    if _module(target) == target:
        return target
    parent, _, name = target.rpartition(".")
    try:
        found = getattr(import_module(f"jumok.{parent}" if parent else "jumok"), name)
    except ModuleNotFoundError:  # a member of a class
        return target
    home = getattr(found, "__module__", None)
    return f"{home}.{name}".removeprefix("jumok.") if home else target


def write_contents(path: Path, language: Language) -> None:
    """The table of contents of the lessons."""
    words = WORDS[language]
    names = "\n".join(lesson.path.stem for lesson in lessons())
    intro = {
        "ko": "논문의 식 하나하나를 코드로 옮깁니다. 강마다 질문 하나, 짧은 셀 몇 개, "
        "맞혀 볼 문제, 노트의 실수, 답이 딸린 연습이 있습니다. 2강에서 7강까지 적은 줄은 14강에서 "
        "완전한 트랜스포머가 됩니다. 15강과 16강은 논문의 결과를 다시 재어 봅니다.",
        "en": "Each equation of the paper as code. A lesson has a question, a few short cells, a "
        "guess, a slip of the notes, and exercises with answers. The lines of lessons 2 to 7 "
        "become a complete Transformer in lesson 14. Lessons 15 and 16 repeat results of papers.",
    }[language]
    text = f"# {words['course']}\n\n{intro}\n\n```{{toctree}}\n:maxdepth: 1\n\n{names}\n```\n"
    path.write_text(text, encoding="utf-8")


def document_page(text: str) -> str:
    """A document of docs/ whose links to source files lead to the reference."""

    def link(found: re.Match[str]) -> str:
        label, target = found.groups()
        module = re.fullmatch(r"\.\./src/(.*)\.py", target)
        name = module[1].replace("/", ".") if module else ""
        return f"{{py:mod}}`{label} <{name}>`" if name in modules() else label

    text = re.sub(r"\[([^\]]*)\]\(LOG\.md[^)]*\)", r"\1", text)
    text = re.sub(r"\[([^\]]*)\]\((notebooks/[^)]*)\)", r"{download}`\1 <\2>`", text)
    return re.sub(r"\[([^\]]*)\]\((\.\./[^)]*)\)", link, text)


@cache
def modules() -> tuple[str, ...]:
    """The modules of the reference: of all public names, `MODULES`, and what lessons link to."""
    names = [
        f"{package}.{path.stem}"
        for package in PACKAGES
        for path in sorted((SOURCE / package).glob("*.py"))
        if path.stem != "__init__"
    ]
    linked = [
        resolved(target)
        for lesson in lessons()
        for kind, target in ROLE.findall(lesson.markdown("ko"))
        if kind == "jumok"
    ]
    public = [
        getattr(package, name).__module__.removeprefix("jumok.")
        for package in map(import_module, PUBLIC)
        for name in package.__all__
        if getattr(getattr(package, name), "__module__", "").startswith("jumok.")
    ]
    names += sorted([*MODULES, *public])
    names += [module for target in linked if (module := _module(target))]
    return tuple(f"jumok.{name}" for name in dict.fromkeys(names))


def _module(target: str) -> str:
    """The module in which an object is defined; "" for one that a package only exports."""
    while target and not (SOURCE / (target.replace(".", "/") + ".py")).is_file():
        target = target.rpartition(".")[0]
    return target


def write_reference(folder: Path) -> None:
    """A page for each package of the reference, with its modules."""
    folder.mkdir()
    pages: dict[str, list[str]] = {}
    for name in modules():
        pages.setdefault(".".join(name.split(".")[:2]), []).append(name)
    contents = "\n".join(f"   {page}" for page in pages)
    title = "API"
    (folder / "index.rst").write_text(
        f"{title}\n===\n\n.. toctree::\n   :maxdepth: 1\n\n{contents}\n", encoding="utf-8"
    )
    for page, names in pages.items():
        parts = [f"{page}\n{'=' * len(page)}\n"]
        for name in names:
            heading = "" if name == page else f"{name}\n{'-' * len(name)}\n\n"
            parts.append(f"{heading}.. automodule:: {name}\n   :members:\n")
        (folder / f"{page}.rst").write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
