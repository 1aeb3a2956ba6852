"""A torch loop wrapped by DiLoCo, merging when Slackwater says so: run it twice, with 0 and with 1.

docs/diloco.md goes through it. Unlike attach_torch.py, which does everything by hand, it leaves
agreement, exchange, outer step, checkpoint and report to `DiLoCo`. MASTER_ADDR and MASTER_PORT say
where the two meet.
"""

import argparse
import os
import time
from pathlib import Path

import torch

from slackwater.attach import Attachment, Corridor
from slackwater.clock import RunClock
from slackwater.settings import RunSettings
from trainer.diloco import DiLoCo
from trainer.peers import Peers

LEARNERS = ["learner-0", "learner-1"]
BATCH = 32
INPUTS = 64


def main() -> None:
    """A regression; the lines of DiLoCo are marked."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("rank", type=int, choices=range(len(LEARNERS)))
    options.add_argument("--steps", type=int, default=3000, help="inner steps, equal for both")
    options.add_argument("--step-s", type=float, default=0.02, help="pause of each step, seconds")
    options.add_argument("--compression", default="int8", help="none, bf16 or int8")
    options.add_argument("--checkpoint-dir", type=Path, default=Path(), help="for one file each")
    given = options.parse_args()

    torch.set_num_threads(1)  # For so small a model more of them only wait for each other.
    torch.manual_seed(0)  # The same first weights everywhere; the data differ by rank.
    model = torch.nn.Sequential(
        torch.nn.Linear(INPUTS, 128), torch.nn.Tanh(), torch.nn.Linear(128, 1)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    truth = torch.randn(INPUTS, 1) / INPUTS**0.5
    data = torch.Generator().manual_seed(given.rank + 1)

    os.environ.update(RANK=str(given.rank), WORLD_SIZE=str(len(LEARNERS)))
    os.environ.setdefault("MASTER_PORT", "29500")
    name = LEARNERS[given.rank]
    settings, clock = RunSettings.from_env(), RunClock.from_env()  # 1
    with (
        Attachment(settings, name, LEARNERS, Corridor(128, 512), clock) as attachment,  # 2
        DiLoCo(  # 3
            model,
            optimizer,
            attachment,
            Peers(LEARNERS),
            compression=given.compression,
            checkpoint=given.checkpoint_dir / f"{name}.safetensors",
        ) as diloco,
    ):
        for _ in range(given.steps):
            x = torch.randn(BATCH, INPUTS, generator=data)
            loss = torch.nn.functional.mse_loss(model(x), torch.sin(3 * x @ truth))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            diloco.report(loss=loss, tokens=BATCH)  # 4
            optimizer.step()
            time.sleep(given.step_s)  # Stands for a model that is worth its accelerator.
    print(f"{name}: loss {loss:.4f}, {diloco.counts}, {attachment.summary()}", flush=True)


if __name__ == "__main__":
    main()
