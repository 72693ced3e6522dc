"""`python -m jumok` runs the command line, without the modules of the current folder.

`python -m` puts the current folder first in `sys.path`, where a random.py of the user, or of a
stranger, would be imported instead of Python's. The command `jumok` does not have it there.
"""

import sys
from os.path import abspath, dirname

# Not where jumok itself is in the current folder.
if not sys.flags.safe_path and sys.path[0] != dirname(dirname(abspath(__file__))):
    del sys.path[0]

from jumok.cli import main

main()
