"""`slackwater doctor`: does this machine have what a run needs, and what to do where not."""

from typing import Annotated

import typer

from slackwater.errors import SlackwaterError
from slackwater.settings import BOOTSTRAP_ENV


def doctor(
    kafka: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            envvar=BOOTSTRAP_ENV,
            help="Check this broker; without it the embedded one is started and stopped.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the checks as one JSON object.")
    ] = False,
) -> None:
    """Check this machine: Python, packages, broker, run log, torch, clock, disk, cores.

    Exits 1 when something would keep a run from working.
    """
    from slackwater.settings import check_bootstrap
    from slackwater.testbed.doctor import diagnose

    if kafka is not None:
        check_bootstrap(kafka)
    checks = []
    for check in diagnose(kafka):
        checks.append(check)
        if not as_json:
            _print(check.state, f"{check.name:<12} {check.found}", check.advice)
    ok = all(check.state != "fail" for check in checks)
    if as_json:
        import msgspec

        report = {"schema_version": 1, "ok": ok, "checks": checks}
        typer.echo(msgspec.json.encode(report).decode())
    if not ok:
        raise typer.Exit(SlackwaterError.exit_code)


def _print(state: str, text: str, advice: str | None) -> None:
    colour = {"ok": "green", "warn": "yellow", "fail": "red"}[state]
    typer.echo(f"{typer.style(f'{state:<4}', fg=colour)} {text}")
    if advice:
        typer.echo(f"     {'':<12} {advice}")
