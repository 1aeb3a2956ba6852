"""Names from files are shown; what steers a terminal in them is not obeyed."""

import pytest

from slackwater.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("trace.csv", "trace.csv"),
        ("день 1.csv", "день 1.csv"),
        ("a\x1b[31m\nb", r"a\x1b[31m\nb"),
        ("bad\udcff", r"bad\xff"),
        ("\u202egnp", r"\u202egnp"),
        ("\ud800", r"\ud800"),
    ],
)
def test_only_what_does_not_print_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
    shown.encode()


def test_lines_may_be_kept() -> None:
    assert printable("a\nb\x07", keep="\n") == "a\nb\\x07"
