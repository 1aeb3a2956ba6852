"""Tasks side by side, of which the first error is raised as it was."""

import asyncio
import contextlib
from collections.abc import AsyncIterator


@contextlib.asynccontextmanager
async def side_by_side() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group; when tasks fail the first error comes out, not a group of them."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
