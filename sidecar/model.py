"""A model made from a config alone: random weights, so there is nothing to download."""

import json
from pathlib import Path

# The smallest that exercises all of a server: attention, its cache, sampling. 1.6 M parameters.
TINY = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 128,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 4096,
    "max_position_embeddings": 1024,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 0,
    "eos_token_id": 1,
}


def write_tiny_model(folder: Path) -> Path:
    """Make `folder` a model that vLLM can serve with dummy weights; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(TINY, indent=2) + "\n")
    return folder
