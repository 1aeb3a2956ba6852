from pathlib import Path

import pytest
from stand_in_parts import MakePart, part_maker


@pytest.fixture
def make_part(tmp_path: Path) -> MakePart:
    return part_maker(tmp_path)
