"""Text from files and file names, made safe to show: nothing in it steers a terminal or page."""

SURROGATE_BYTES = range(0xDC80, 0xDD00)
"""What a byte that is no UTF-8 becomes in a file's name."""


def printable(text: str, keep: str = "") -> str:
    r"""The text with every character that does not print as an escape such as \x1b.

    Printing characters of any script stay; so do those in `keep`.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    code = ord(character)
    if code in SURROGATE_BYTES:
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()
