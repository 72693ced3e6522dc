"""Give a wheel the platform tag of the oldest glibc that its kernels run with.

    python scripts/tag_wheel.py dist/jumok-0.1.0-py3-none-linux_x86_64.whl

`auditwheel show` finds it in the versioned symbols of the libraries.
"""

import re
import subprocess
import sys
from pathlib import Path


def glibc_tag(report: str) -> str:
    r"""The platform tag in the report of `auditwheel show`.

    >>> glibc_tag('x.whl is consistent with the following\nplatform tag: "manylinux_2_35_x86_64".')
    'manylinux_2_35_x86_64'
    """
    found = re.search(r'platform\s+tag:\s+"(manylinux_\w+)"', report)
    if found is None:
        raise ValueError(f"auditwheel must report a manylinux tag, got {report[:400]!r}")
    return found[1]


def main(wheel: Path) -> None:
    """Rename the wheel and replace the tag inside."""
    python = sys.executable
    show = [python, "-m", "auditwheel", "show", str(wheel)]
    report = subprocess.run(show, capture_output=True, text=True, check=True).stdout
    print(report.strip())
    tag = [python, "-m", "wheel", "tags", "--remove", "--platform-tag", glibc_tag(report)]
    subprocess.run([*tag, str(wheel)], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
