"""Writes torchft_golden.json: the weights after each of 20 merges by torchft's own DiLoCo.

torchft is no dependency of this project; in an environment of its own:

    pip install torch==2.13.0 && pip install --no-deps torchft==0.2.0
    python tests/trainer/data/torchft_golden.py

Two learners with torchft's lighthouse, managers and gloo between them; their "gradients" are a
formula, so that whoever compares can make the same ones.
"""

import json
import math
import threading
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torchft import Manager, ProcessGroupGloo
from torchft.coordination import LighthouseServer
from torchft.local_sgd import DiLoCo

LEARNERS = 2
MERGES = 20
SYNC_EVERY = 4
INNER_LR = 0.1
PATIENCE = timedelta(seconds=60)


def gradient(size: int, step: int, rank: int) -> torch.Tensor:
    """What a learner's inner step follows."""
    values = (math.sin(0.37 * i + 1.3 * step + 2.1 * rank) for i in range(size))
    return torch.tensor(list(values), dtype=torch.float64).float()


def model() -> nn.Module:
    """Thirty-seven parameters, set by a formula."""
    layers = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2))
    size = sum(p.numel() for p in layers.parameters())
    values = torch.tensor([math.cos(0.9 * i) for i in range(size)], dtype=torch.float64).float()
    nn.utils.vector_to_parameters(values, layers.parameters())
    return layers


def learner(rank: int, lighthouse: str, found: list[list[list[float]]]) -> None:
    """One learner's 80 steps."""
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    layers = model()
    inner = torch.optim.SGD(layers.parameters(), lr=INNER_LR)
    outer = torch.optim.SGD(layers.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=PATIENCE),
        min_replica_size=LEARNERS,
        use_async_quorum=False,
        load_state_dict=layers.load_state_dict,
        state_dict=layers.state_dict,
        replica_id=f"learner_{rank}",
        store_addr="localhost",
        store_port=store.port,
        rank=0,
        world_size=1,
        lighthouse_addr=lighthouse,
        timeout=PATIENCE,
        quorum_timeout=PATIENCE,
        connect_timeout=PATIENCE,
        init_sync=False,
    )
    size = sum(p.numel() for p in layers.parameters())
    with DiLoCo(manager, [layers], inner, outer, sync_every=SYNC_EVERY):
        for step in range(1, MERGES * SYNC_EVERY + 1):
            inner.zero_grad()
            start = 0
            values = gradient(size, step, rank)
            for p in layers.parameters():
                p.grad = values[start : start + p.numel()].view_as(p).clone()
                start += p.numel()
            inner.step()
            if step % SYNC_EVERY == 0:
                weights = nn.utils.parameters_to_vector(layers.parameters())
                found[rank].append(weights.detach().tolist())
    manager.shutdown(wait=False)


def main() -> None:
    """Run both learners and write what they agree on."""
    lighthouse = LighthouseServer(bind="[::]:0", min_replicas=LEARNERS, join_timeout_ms=1000)
    found: list[list[list[float]]] = [[] for _ in range(LEARNERS)]
    threads = [
        threading.Thread(target=learner, args=(rank, lighthouse.address(), found))
        for rank in range(LEARNERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lighthouse.shutdown()
    assert found[0] == found[1]
    assert len(found[0]) == MERGES
    about = {
        "made_by": f"torchft 0.2.0, torch {torch.__version__}",
        "learners": LEARNERS,
        "sync_every": SYNC_EVERY,
        "inner_lr": INNER_LR,
    }
    lines = ",\n".join(json.dumps(weights) for weights in found[0])
    text = json.dumps(about)[:-1] + ', "weights": [\n' + lines + "\n]}\n"
    Path(__file__).with_suffix(".json").write_text(text)


if __name__ == "__main__":
    main()
