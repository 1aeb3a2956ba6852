"""The table of commands. A command's module is imported when it runs, never for another's sake."""

import typer

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="Decide when DiLoCo learners may merge beside live traffic, and prove it was worth it.",
)
