"""The course: thirteen lessons in Korean and English, and the small model they look at.

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
