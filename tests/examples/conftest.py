"""A folder of its own for each test's commands."""

from pathlib import Path

import pytest
from attach_shell import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)
