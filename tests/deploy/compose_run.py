"""Runs the services of docker-compose.yml as processes: their own commands and environment.

What a container network gives is replaced and nothing else: names of hosts by loopback, ports by
free ones, volumes by folders.
"""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

from compose_file import ours

STOP_TIMEOUT_S = 30
START_TIMEOUT_S = 60


class ComposeRun:
    """Context manager; `start` a service, `stop` it, and none is left at the end."""

    def __init__(self, folder, bootstrap, env, free_port):
        self.services = ours(env)
        self.folder = folder
        self.bootstrap = bootstrap
        self.free_port = free_port
        self.master_port = free_port()
        self.metrics_ports = {}
        self.running = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running.values():
            process.kill()
            process.wait()

    def data(self, name):
        """The folder that stands for the volume at /data of a service."""
        volumes = [v.split(":")[0] for v in self.services[name].get("volumes", [])]
        folder = self.folder / (volumes[0] if volumes else f"{name}-none")
        folder.mkdir(exist_ok=True)
        return folder

    def local(self, name, text):
        """A command's word or a variable's value as it must be outside of containers."""
        port = self.metrics_ports.setdefault(name, self.free_port())
        for theirs, here in {
            "kafka:9092": self.bootstrap,
            "0.0.0.0": "127.0.0.1",  # noqa: S104 (it is taken out here)
            "9100": str(port),
            "29500": str(self.master_port),
            "/data/": f"{self.data(name)}/",
        }.items():
            text = text.replace(theirs, here)
        return text

    def environment(self, name):
        env = {k: self.local(name, v) for k, v in self.services[name]["environment"].items()}
        if env.get("MASTER_ADDR") in self.services:
            env["MASTER_ADDR"] = "127.0.0.1"
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return {"PATH": path, "HOME": str(self.folder), **env}

    def spawn(self, name, command, log):
        return subprocess.Popen(
            [self.local(name, word) for word in command],
            env=self.environment(name),
            cwd=self.data(name),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )

    def start(self, name):
        """Start a service as `docker compose up` would once what it depends on is there."""
        with self.log_path(name).open("wb") as log:
            self.running[name] = self.spawn(name, self.services[name]["command"], log)

    def log_path(self, name):
        return self.folder / f"{name}.log"

    def log(self, name):
        return self.log_path(name).read_text()

    def wait_until_healthy(self, name):
        """Repeat the service's own health check until it passes."""
        check = shlex.split(self.services[name]["healthcheck"]["test"])
        deadline = time.monotonic() + START_TIMEOUT_S
        while self.spawn(name, check, subprocess.DEVNULL).wait():
            assert self.running[name].poll() is None, self.log(name)
            assert time.monotonic() < deadline, self.log(name)
            time.sleep(0.2)

    def ended(self, name, timeout_s):
        """Exit code of a service that ends by itself."""
        return self.running[name].wait(timeout_s)

    def stop(self, name):
        """Ask a service to end as `docker compose stop` does; returns its exit code."""
        self.running[name].send_signal(signal.SIGTERM)
        return self.ended(name, STOP_TIMEOUT_S)
