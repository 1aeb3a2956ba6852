"""Before any load: is the endpoint there, and does it serve that model?"""

import asyncio

import aiohttp
import msgspec

from sidecar.load.endpoint import Endpoint
from slackwater.errors import InputError, SlackwaterError

WAIT_S = 10.0


class EndpointError(SlackwaterError):
    """The endpoint cannot be reached, or refuses."""


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


def check_endpoint(endpoint: Endpoint) -> tuple[str, ...]:
    """The models that the endpoint serves; empty when it has no `/v1/models` to ask.

    Raises:
        EndpointError: it cannot be reached, refuses or fails.
        InputError: it serves other models.
    """
    return asyncio.run(_check(endpoint))


async def _check(endpoint: Endpoint) -> tuple[str, ...]:
    url = f"{endpoint.base}/v1/models"
    timeout = aiohttp.ClientTimeout(total=WAIT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=endpoint.headers) as session,
            session.get(url) as response,
        ):
            return _read(endpoint, url, response.status, await response.read())
    except TimeoutError:
        msg = f"{url} does not answer within {WAIT_S:g} s; is the server up, and the URL right?"
        raise EndpointError(msg) from None
    except (aiohttp.ClientError, OSError) as error:
        msg = f"cannot reach {url}: {error}; start the server, or correct the endpoint's URL"
        raise EndpointError(msg) from None


def _read(endpoint: Endpoint, url: str, status: int, body: bytes) -> tuple[str, ...]:
    if status in {404, 405}:
        return ()  # A gateway without the list: the first request will tell.
    if status in {401, 403}:
        todo = "is it the right one?" if endpoint.api_key else "it wants an API key"
        msg = f"{url} refuses with HTTP {status}: {todo}"
        raise EndpointError(msg)
    if status != 200:
        said = " ".join(body[:200].decode(errors="replace").split())
        msg = f"{url} answers HTTP {status}: {said!r}; look into the server's log"
        raise EndpointError(msg)
    try:
        models = tuple(model.id for model in msgspec.json.decode(body, type=_Models).data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        msg = f"{url} does not answer as an OpenAI-compatible server does; correct the URL"
        raise EndpointError(msg) from None
    if endpoint.model not in models:
        msg = (
            f"model {endpoint.model!r} is not served at {endpoint.base}; "
            f"it serves {', '.join(models) or 'none'}"
        )
        raise InputError(msg)
    return models
