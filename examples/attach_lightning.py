"""Two Lightning jobs that merge when Slackwater says so: run it twice, with 0 and with 1.

MASTER_PORT says where on this machine the two meet. docs/attach.md has the commands.
The attachment is the lines that end in `attach`.
"""

import argparse
import os
import time

import lightning
import torch

from slackwater.attach import Attachment, Corridor  # attach
from slackwater.clock import RunClock  # attach
from slackwater.settings import RunSettings  # attach
from trainer.adapters.lightning import MergeCallback, Peers, Place  # attach

NAMES = ["learner-0", "learner-1"]
BATCH = 32
INPUTS = 64


class Regression(lightning.LightningModule):
    """A small network, trained by AdamW."""

    def __init__(self, pause_s: float) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(INPUTS, 128), torch.nn.Tanh(), torch.nn.Linear(128, 1)
        )
        self.register_buffer("truth", torch.randn(INPUTS, 1) / INPUTS**0.5)
        self.pause_s = pause_s

    def training_step(self, x: torch.Tensor) -> torch.Tensor:
        """The loss of a batch, (BATCH, INPUTS)."""
        time.sleep(self.pause_s)  # Stands for a model that is worth its accelerator.
        return torch.nn.functional.mse_loss(self.layers(x), torch.sin(3 * x @ self.truth))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """The inner optimiser."""
        return torch.optim.AdamW(self.layers.parameters(), lr=1e-3)


def main() -> None:
    """Train; ten lines of it are the attachment."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("rank", type=int, choices=range(len(NAMES)))
    options.add_argument("--steps", type=int, default=3000, help="inner steps, equal for both")
    options.add_argument("--step-s", type=float, default=0.02, help="pause of each step, seconds")
    given = options.parse_args()

    torch.set_num_threads(1)  # For so small a model more of them only wait for each other.
    torch.manual_seed(0)  # The same first weights everywhere; the data differ by rank.
    module = Regression(given.step_s)
    own = torch.Generator().manual_seed(given.rank + 1)
    data = torch.utils.data.DataLoader(
        torch.randn(100 * BATCH, INPUTS, generator=own), batch_size=BATCH
    )
    place = Place(given.rank, 2, ("127.0.0.1", int(os.getenv("MASTER_PORT", "29500"))))  # attach
    settings, clock, me = RunSettings.from_env(), RunClock.from_env(), NAMES[given.rank]  # attach
    with (
        Attachment(settings, me, NAMES, Corridor(128, 512), clock) as attachment,  # attach
        MergeCallback(attachment, Peers(NAMES, place), tokens=len) as merges,  # attach
    ):
        trainer = lightning.Trainer(
            callbacks=[merges],  # attach
            max_steps=given.steps,
            accelerator="cpu",
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(module, data)
    print(f"{me}: {trainer.global_step} steps, {attachment.summary()}", flush=True)


if __name__ == "__main__":
    main()
