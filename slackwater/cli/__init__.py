"""The command line: `slackwater COMMAND`. One module a command; errors end in one clear line."""

import sys

from slackwater.errors import InputError, SlackwaterError

INTERRUPTED = 130


def main() -> None:
    """Run the command line; a `SlackwaterError` becomes one line on stderr and its exit code."""
    try:
        sys.exit(_run())
    except SlackwaterError as error:
        sys.stderr.write(f"slackwater: {error}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("slackwater: interrupted\n")
        sys.exit(INTERRUPTED)


def _run() -> int:
    try:
        from slackwater.cli.app import app
    except ModuleNotFoundError as error:
        msg = f"the command line needs {error.name}; pip install 'slackwater[cli]'"
        raise InputError(msg) from None
    return app(standalone_mode=False) or 0
