"""How a request can end: as a server tells it, and as the client that sent it does."""

from typing import Literal, get_args

Status = Literal["ok", "aborted", "timeout", "error"]
ClientStatus = Literal[Status, "dropped"]
"""A client knows besides which requests it never sent."""

STATUSES: tuple[Status, ...] = get_args(Status)
CLIENT_STATUSES: tuple[ClientStatus, ...] = get_args(ClientStatus)
