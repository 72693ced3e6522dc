"""Record what the cells of the lessons print, and the pictures that they draw.

python -m tests.course.record          all lessons
python -m tests.course.record 3 4      these
"""

import json
import sys
import time
from pathlib import Path

from matplotlib.figure import Figure

from jumok.atomic_io import write_atomically
from jumok.course.lesson import Lesson, find_lesson, lessons
from tests.course.cells import run_lesson

PICTURES = Path(__file__).parents[2] / "docs" / "images" / "lessons"


def record_outputs(lesson: Lesson) -> dict[str, str]:
    """Run a lesson, write its .out.json, and its pictures in both languages."""
    figures: dict[str, Figure] = {}
    outputs = run_lesson(lesson, figures)
    for name, figure in figures.items():
        figure.savefig(PICTURES / f"{lesson.path.stem}.{name}.png", dpi=110)
    text = json.dumps(outputs, ensure_ascii=False, indent=1) + "\n"
    write_atomically(lesson.path.with_suffix(".out.json"), text.encode())
    return outputs


def main(numbers: list[int]) -> None:
    """Record the lessons with these numbers, or all."""
    for lesson in [find_lesson(number) for number in numbers] or lessons():
        start = time.monotonic()
        outputs = record_outputs(lesson)
        print(f"{lesson.path.stem}: {len(outputs)} cells, {time.monotonic() - start:.1f} s")


if __name__ == "__main__":
    main([int(number) for number in sys.argv[1:]])
