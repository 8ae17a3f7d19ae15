"""The dimensions that a Hugging Face `config.json` gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from dsconf.memory.model import Model, ModelError, Transformer

#: Families whose blocks are Llama's: RMS norms, a gated MLP, rotary positions.
_LLAMA = (
    "llama",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "gemma",
    "gemma2",
    "phi3",
    "olmo",
    "olmo2",
    "smollm3",
    "granite",
    "stablelm",
    "internlm2",
    "yi",
    "deepseek",
)
#: Families with layer norms, biases and a plain MLP of four times the width.
_GPT = ("gpt2", "gpt_neo", "gpt_neox", "gptj", "opt", "bloom", "falcon", "gpt_bigcode", "phi")


def read_config(values: object, name: str) -> Model:
    """The model that the values of a `config.json` describe.

    The tensors are those of the family's usual blocks, so small ones that one member adds, such as the norms of query
    and key, are left out.

    Raises:
        ModelError: the architecture is not known, or a dimension is absent or impossible.
    """
    if not isinstance(values, Mapping):
        raise ModelError(f"{name}: config.json is not an object")
    config = cast("Mapping[str, Any]", values)
    family = config.get("model_type")
    if not isinstance(family, str) or family not in (*_LLAMA, *_GPT):
        what = f"model_type {family!r}" if family else "a config.json without model_type"
        raise ModelError(
            f"{name}: {what} is not one whose tensors are known; give --params, or build the module on the "
            "meta device and use dsconf.memory.Model.from_module"
        )

    def size(*names: str, default: int | None = None) -> int:
        for key in names:
            value = config.get(key)
            if value is not None:
                if type(value) is not int or value < 1:
                    raise ModelError(f"{name}: {key} is {value!r}; it must be a whole number above 0")
                return value
        if default is None:
            raise ModelError(f"{name}: config.json has no {names[0]}")
        return default

    gated = family in _LLAMA
    hidden = size("hidden_size", "n_embd", "d_model")
    heads = size("num_attention_heads", "n_head", default=1)
    kv_heads = size("num_key_value_heads", "num_kv_heads", default=1 if config.get("multi_query") else heads)
    experts = size("num_local_experts", "num_experts", default=0) if "moe" in family or family == "mixtral" else 0
    learned = family in ("gpt2", "gpt_neo", "opt", "gpt_bigcode")
    shape = Transformer(
        hidden=hidden,
        layers=size("num_hidden_layers", "n_layer", "num_layers"),
        vocabulary=size("vocab_size"),
        intermediate=size(
            *(("moe_intermediate_size",) if family == "qwen3_moe" else ()),
            "intermediate_size",
            "ffn_dim",
            "n_inner",
            default=None if gated else 4 * hidden,
        ),
        heads=heads,
        kv_heads=kv_heads,
        gated=gated,
        tied=bool(config.get("tie_word_embeddings", not gated or family.startswith("gemma"))),
        positions=size("max_position_embeddings", "n_positions", default=1) if learned else 0,
        biases=not gated,
        experts=experts,
        head_size=size("head_dim", default=max(1, hidden // heads)),
    )
    return Model.from_transformer(shape, name)
