"""``python -m understudy``: the same as the command ``understudy``."""

from understudy.cli import main

main()
