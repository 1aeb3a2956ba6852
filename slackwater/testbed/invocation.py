"""How this program was called, so that what it says to type next works as printed."""

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

NAME = "slackwater"


def program(argv0: str | None = None, orig_argv: Sequence[str] | None = None) -> str:
    """The words before the command's name, quoted for a shell: `.venv/bin/slackwater`.

    `slackwater` where the search path finds this very program, else the path it was called by, or
    `PYTHON -m slackwater`. The arguments stand for `sys.argv[0]` and `sys.orig_argv`.
    """
    called = Path(sys.argv[0] if argv0 is None else argv0)
    python, *_ = sys.orig_argv if orig_argv is None else orig_argv
    if called.name != NAME:
        return shlex.join([python, "-m", NAME])
    found = shutil.which(NAME)
    if found is not None and called.exists() and called.samefile(found):
        return NAME
    return shlex.quote(str(called))
