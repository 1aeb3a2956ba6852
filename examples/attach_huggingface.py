"""Two Hugging Face Trainers that merge when Slackwater says so: run it twice, with 0 and with 1.

A small language model from a configuration, on made-up tokens; nothing is downloaded. MASTER_PORT
says where on this machine the two meet. docs/attach.md has the commands.
The attachment is the lines that end in `attach`.
"""

import argparse
import os
import tempfile
import time
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

from slackwater.attach import Attachment, Corridor  # attach
from slackwater.clock import RunClock  # attach
from slackwater.settings import RunSettings  # attach
from trainer.adapters.huggingface import MergeCallback, Peers, Place  # attach

NAMES = ["learner-0", "learner-1"]
BATCH, LENGTH, WORDS = 4, 16, 64


class Counting(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Sequences that count up, each from its own start: `seed` decides the starts."""

    def __init__(self, seed: int, items: int, pause_s: float) -> None:
        self._starts = torch.randint(WORDS, (items,), generator=torch.manual_seed(seed))
        self._pause_s = pause_s / BATCH

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, index: Any) -> dict[str, torch.Tensor]:
        time.sleep(self._pause_s)  # Stands for a model that is worth its accelerator.
        ids = (self._starts[index] + torch.arange(LENGTH)) % WORDS
        return {"input_ids": ids, "labels": ids}


def main() -> None:
    """Train; ten lines of it are the attachment."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("rank", type=int, choices=range(len(NAMES)))
    options.add_argument("--steps", type=int, default=3000, help="inner steps, equal for both")
    options.add_argument("--step-s", type=float, default=0.02, help="pause of each step, seconds")
    given = options.parse_args()

    torch.set_num_threads(1)  # For so small a model more of them only wait for each other.
    set_seed(0)  # The same first weights everywhere; the data differ by rank.
    sizes = {"vocab_size": WORDS, "n_positions": LENGTH, "n_embd": 32, "n_layer": 1, "n_head": 2}
    model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
    data = Counting(given.rank + 1, given.steps * BATCH, given.step_s)
    place = Place(given.rank, 2, ("127.0.0.1", int(os.getenv("MASTER_PORT", "29500"))))  # attach
    settings, clock, me = RunSettings.from_env(), RunClock.from_env(), NAMES[given.rank]  # attach
    with (
        Attachment(settings, me, NAMES, Corridor(128, 512), clock) as attachment,  # attach
        MergeCallback(attachment, Peers(NAMES, place)) as merges,  # attach
        tempfile.TemporaryDirectory() as folder,
    ):
        arguments = TrainingArguments(
            folder,
            max_steps=given.steps,
            per_device_train_batch_size=BATCH,
            include_num_input_tokens_seen="all",
            logging_steps=10,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
        )
        found = Trainer(model, arguments, train_dataset=data, callbacks=[merges]).train()  # attach
    print(f"{me}: loss {found.training_loss:.4f}, {attachment.summary()}", flush=True)


if __name__ == "__main__":
    main()
