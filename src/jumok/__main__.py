"""`python -m jumok` runs the command line."""

from jumok.cli import main

main()
