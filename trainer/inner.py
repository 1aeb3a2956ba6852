"""The inner optimiser: AdamW for the transformer, sparse row-wise Adagrad for the embedding."""

from collections.abc import Callable
from typing import Any, overload

import torch

from trainer.model import CharModel

ADAMW_LR = 3e-3
ROWWISE_LR = 3e-2


class RowwiseAdagrad(torch.optim.Optimizer):
    """Adagrad with one accumulator a row, for sparse gradients.

    Only rows that the step touched change, and its state is a `width`-th of the parameters: what
    recommender systems train their embedding tables with (FBGEMM's `EXACT_ROWWISE_ADAGRAD`).
    """

    def __init__(self, params: list[torch.Tensor], lr: float, eps: float = 1e-8) -> None:
        super().__init__(params, {"lr": lr, "eps": eps})

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One update of the touched rows."""
        loss = closure() if closure else None
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, weight.grad.coalesce(), group["lr"], group["eps"])
        return loss

    def _update(self, weight: torch.Tensor, grad: torch.Tensor, lr: float, eps: float) -> None:
        rows, values = grad.indices()[0], grad.values()
        state: dict[str, Any] = self.state[weight]
        if not state:
            state["sum"] = torch.zeros(weight.shape[0])
        state["sum"].index_add_(0, rows, values.square().mean(dim=1))
        scale = lr / (state["sum"][rows].sqrt() + eps)
        weight.index_add_(0, rows, values * -scale[:, None])


class InnerOptimizer:
    """Both optimisers as one.

    Attributes:
        parts: the two, in the order of their steps.
    """

    def __init__(self, model: CharModel) -> None:
        dense = [p for p in model.parameters() if p is not model.trigram.weight]
        self.parts: list[torch.optim.Optimizer] = [
            torch.optim.AdamW(dense, lr=ADAMW_LR, weight_decay=0.01),
            RowwiseAdagrad([model.trigram.weight], lr=ROWWISE_LR),
        ]

    def step(self, loss: torch.Tensor) -> None:
        """Gradients of `loss`, and one update of all parameters they reach."""
        for part in self.parts:
            part.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        for part in self.parts:
            part.step()
