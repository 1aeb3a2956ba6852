"""Options that `calibrate` and `trial` share: which real server is asked."""

from pathlib import Path
from typing import Annotated

import typer

VllmPython = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Interpreter that has vLLM, for --launch-vllm.",
        show_default=".venv-vllm of the checkout",
    ),
]
Endpoint = Annotated[
    str | None,
    typer.Option(metavar="URL", help="An OpenAI-compatible server that runs already."),
]
Model = Annotated[str | None, typer.Option(help="The model's name at --endpoint.")]
Vocabulary = Annotated[
    int | None,
    typer.Option(
        help="Prompts of token ids below this, for a vLLM without a tokenizer.",
        show_default="prompts of words",
    ),
]
