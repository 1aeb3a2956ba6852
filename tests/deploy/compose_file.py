"""docker-compose.yml as the tests see it: variables filled in, commands split."""

import re
import shlex
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
# Third-party images: everything else is ours.
FOREIGN = {"kafka", "prometheus", "grafana"}


def fill(text, env):
    """Replace `${NAME:-default}` as compose does."""
    return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda m: env.get(m[1]) or m[2], text)


def services(env=None):
    """Name -> service, with `command` as a list and `environment` as strings."""
    text = fill((ROOT / "docker-compose.yml").read_text(), env or {})
    found = yaml.safe_load(text)["services"]
    for service in found.values():
        if "command" in service:
            service["command"] = shlex.split(service["command"])
        service["environment"] = {k: str(v) for k, v in service.get("environment", {}).items()}
    return found


def ours(env=None):
    """The services that run our own images."""
    return {name: s for name, s in services(env).items() if name not in FOREIGN}
