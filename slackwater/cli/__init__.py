"""The command line: `slackwater COMMAND`. One module a command; errors end in one clear line."""

import sys

from slackwater.errors import InputError, SlackwaterError
from slackwater.printable import printable

INTERRUPTED = 130
LINES = "\n"
DUCKDB_INTERRUPTED = "Query interrupted"
# What the distribution slackwater-server brings, by itself or as its dependencies.
SERVER_MODULES = {
    *("calibration", "controller", "replay_producer", "sidecar", "sql", "streams", "trainer"),
    *(
        "aiohttp",
        "aiokafka",
        "duckdb",
        "faust",
        "numba",
        "numpy",
        "prometheus_client",
        "psutil",
        "pyarrow",
        "torch",
    ),
}


def main() -> None:
    """Run the command line; what a user can cause becomes one line on stderr and an exit code."""
    try:
        sys.exit(_run())
    except SlackwaterError as error:
        sys.stderr.write(f"slackwater: {printable(str(error), keep=LINES)}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("slackwater: interrupted\n")
        sys.exit(INTERRUPTED)


def _run() -> int:
    try:
        import typer

        from slackwater.cli.app import app
    except ModuleNotFoundError as error:
        msg = f"the command line needs {error.name}; pip install 'slackwater[cli]'"
        raise InputError(msg) from None
    try:
        return app(standalone_mode=False, prog_name="slackwater") or 0
    except typer.Abort:
        raise KeyboardInterrupt from None
    except ModuleNotFoundError as error:
        raise _missing_part(error) from None
    except RuntimeError as error:
        if str(error) == DUCKDB_INTERRUPTED:  # Ctrl-C within a query; a RuntimeError of its own.
            raise KeyboardInterrupt from None
        raise _usage_error(error) from None
    except MemoryError as error:
        msg = f"there is not enough memory for this ({error or 'no size known'}); ask for less"
        raise SlackwaterError(msg) from None
    except Exception as error:
        raise _usage_error(error) from None


def _missing_part(error: ModuleNotFoundError) -> Exception:
    """The one line for a command whose parts are not installed; any other exception as it is."""
    if (error.name or "").partition(".")[0] not in SERVER_MODULES:
        return error
    return InputError(
        f"this command needs {error.name}; "
        "pip install 'slackwater-server[trainer,embedded]' into an environment of its own"
    )


def _usage_error(error: Exception) -> Exception:
    """The one line for a wrong option or command; any other exception as it is."""
    format_message = getattr(error, "format_message", None)
    if format_message is None:
        return error
    message = format_message()
    if not message:  # No command given: the help has been printed and says all.
        sys.exit(InputError.exit_code)
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "slackwater"
    return InputError(f"{message.rstrip('.')}; see {path} --help")
