"""Makes a small model of transformers with random weights, in the layout of its files and in that of its state dict.

    python maps_transformers.py FOLDER SEED

`left` is what `save_pretrained` writes, with experts one by one; `right.safetensors` has the parameters of the model.
"""

import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(int(sys.argv[2]))
    # Square experts would fit transposed too.
    for number, (hidden, inner, experts) in enumerate([(64, 64, 4), (32, 48, 5)]):
        config = Qwen3MoeConfig(
            vocab_size=96,
            hidden_size=hidden,
            intermediate_size=48,
            moe_intermediate_size=inner,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
            num_experts=experts,
            num_experts_per_tok=2,
            tie_word_embeddings=False,
        )
        model = Qwen3MoeForCausalLM(config)
        place = folder / str(number)
        model.save_pretrained(place / "left")
        parameters = {name: value.detach().clone().contiguous() for name, value in model.state_dict().items()}
        save_file(parameters, place / "right.safetensors")


main()
