"""Two torchft replicas that merge when Slackwater says so: run it twice, with 0 and with 1.

TORCHFT_LIGHTHOUSE says where torchft's lighthouse is. docs/attach.md has the commands.
The attachment is the lines that end in `attach`.
"""

import argparse
import time
from datetime import timedelta

import torch
from torch.distributed import TCPStore
from torchft.manager import Manager
from torchft.process_group import ProcessGroupGloo

from slackwater.attach import Attachment, Corridor  # attach
from slackwater.clock import RunClock  # attach
from slackwater.settings import RunSettings  # attach
from trainer.adapters.torchft import OnDemandDiLoCo  # attach

NAMES = ["replica-0", "replica-1"]
BATCH = 32
INPUTS = 64


def main() -> None:
    """A regression trained by inner AdamW and torchft's DiLoCo."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("rank", type=int, choices=range(len(NAMES)))
    options.add_argument("--steps", type=int, default=3000, help="inner steps, equal for both")
    options.add_argument("--step-s", type=float, default=0.02, help="pause of each step, seconds")
    given = options.parse_args()

    torch.set_num_threads(1)  # For so small a model more of them only wait for each other.
    torch.manual_seed(0)  # The same first weights everywhere; the data differ by rank.
    model = torch.nn.Sequential(
        torch.nn.Linear(INPUTS, 128), torch.nn.Tanh(), torch.nn.Linear(128, 1)
    )
    truth = torch.randn(INPUTS, 1) / INPUTS**0.5
    data = torch.Generator().manual_seed(given.rank + 1)
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
    outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=timedelta(seconds=10)),
        load_state_dict=model.load_state_dict,
        state_dict=model.state_dict,
        min_replica_size=len(NAMES),
        use_async_quorum=False,
        init_sync=False,
        rank=0,
        world_size=1,
        store_addr="127.0.0.1",
        store_port=store.port,
        hostname="127.0.0.1",
        replica_id=NAMES[given.rank],
        timeout=timedelta(seconds=10),
    )
    settings, clock, me = RunSettings.from_env(), RunClock.from_env(), NAMES[given.rank]  # attach
    with (
        Attachment(settings, me, NAMES, Corridor(128, 512), clock) as attachment,  # attach
        OnDemandDiLoCo(manager, [model], inner, outer, attachment=attachment) as diloco,  # attach
    ):
        for _ in range(given.steps):
            x = torch.randn(BATCH, INPUTS, generator=data)
            loss = torch.nn.functional.mse_loss(model(x), torch.sin(3 * x @ truth))
            inner.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            time.sleep(given.step_s)  # Stands for a model that is worth its accelerator.
            diloco.report(loss=loss, tokens=BATCH)  # attach
            inner.step()
    print(f"{me}: loss {loss.item():.4f}, {attachment.summary()}", flush=True)
    manager.shutdown(wait=False)


if __name__ == "__main__":
    main()
