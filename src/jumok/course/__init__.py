"""The course: seventeen lessons in Korean and English, and the small model they look at.

`jumok.course.transformer` is the file that the learner writes, in plain PyTorch;
`jumok.course.microjumok` is the same model in plain Python.

`jumok lesson 3` shows one in a terminal, `jumok lesson 3 --notebook FILE` writes a notebook.
"""

from jumok.course.lesson import LANGUAGES, Cell, Language, Lesson, find_lesson, lessons
from jumok.course.note_model import SENTENCES, note_trace

__all__ = [
    "LANGUAGES",
    "SENTENCES",
    "Cell",
    "Language",
    "Lesson",
    "find_lesson",
    "lessons",
    "note_trace",
]
