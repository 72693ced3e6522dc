"""Compile the kernel for every instruction set of this type of machine into the package.

    python -m jumok.native.bundle

An image or a wheel that is built so needs no compiler where it runs.
"""

from itertools import product
from pathlib import Path

from jumok.native.build import BUNDLED_FOLDER, SOURCES, compile_kernel, kernel_name
from jumok.native.instruction_sets import compilable, machine


def bundle(folder: Path = BUNDLED_FOLDER) -> list[Path]:
    """The compiled files, readable by all users."""
    paths = []
    for instruction_set, part in product(compilable(machine()), SOURCES):
        path = folder / kernel_name(instruction_set, part)
        compile_kernel(instruction_set, path, part=part)
        path.chmod(0o644)
        paths.append(path)
    folder.chmod(0o755)
    return paths


if __name__ == "__main__":
    for written in bundle():
        print(written)
