"""The build hook of the wheel: it compiles the C++ kernel.

`pip install .` and `python -m build --wheel` compile it for this processor where a C++ compiler is
installed and ends within ten minutes, and elsewhere write a wheel for any system, which compiles at
first use, as on other processors. JUMOK_KERNEL=none leaves the kernel out; JUMOK_KERNEL=all
compiles it for every x86-64 processor and makes a failure an error (`make wheel`).
"""

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = Path(__file__).parent / "src"
MODES = ("", "all", "none")


class KernelBuildHook(BuildHookInterface):
    """Compiles shared libraries of instruction sets; the processor's is chosen when loaded.

    They stay separate files, because one library would share inline functions between instruction
    sets (`jumok/native/instruction_sets.py`).
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile into a temporary folder and add the files to the wheel."""
        mode = os.environ.get("JUMOK_KERNEL", "")
        if mode not in MODES:
            raise ValueError(f'JUMOK_KERNEL must be "all" or "none", got {mode!r}; leave it unset')
        if version == "editable" or mode == "none":
            return
        sys.path.insert(0, str(SOURCES))
        from jumok.native.build import SOURCES as PARTS
        from jumok.native.build import KernelError, compile_kernel, find_compiler, kernel_name
        from jumok.native.instruction_sets import X86_64, compilable, machine, usable

        problem = ""
        if sys.platform != "linux" or machine() != X86_64:
            problem = f"the kernel is compiled for Linux on x86-64 only, not for {sys.platform}"
        else:
            try:
                find_compiler()
            except KernelError as error:
                problem = str(error)
        if problem:
            self._leave_out(mode, problem)
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        sets = compilable(X86_64) if mode == "all" else usable()[:1]
        parts = list(product(sets, PARTS))
        paths = [self.folder / kernel_name(*each) for each in parts]
        names = ", ".join(each.name for each in sets)
        self.app.display_info(f"compiling the C++ kernel for {names}: half a minute each")
        try:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                list(
                    pool.map(
                        lambda each, path: compile_kernel(each[0], path, part=each[1]), parts, paths
                    )
                )
        except KernelError as error:  # a compiler that fails, or a busy machine
            shutil.rmtree(self.folder, ignore_errors=True)
            self._leave_out(mode, str(error))
            return
        for path in paths:
            path.chmod(0o755)
            build_data["force_include"][str(path)] = f"jumok/native/lib/{path.name}"
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-linux_x86_64"  # `make wheel` names the glibc

    def _leave_out(self, mode: str, problem: str) -> None:
        """Say that the wheel has no kernel; where it must have one, fail."""
        if mode == "all":
            raise RuntimeError(problem)
        self.app.display_warning(f"the wheel has no compiled kernel: {problem}")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Delete the compiled files; the wheel contains them."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def folder(self) -> Path:
        """The folder of the compiled files."""
        return Path(self.root) / "build" / "kernel"
