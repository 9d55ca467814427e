"""Saves small models with transformers, or loads them again, and prints what they hold.

    python transformers_models.py save FOLDER
    python transformers_models.py load FOLDER...

`save` makes folders in FOLDER: models with and without tied weights, in one file and in shards, as safetensors and, where this
version still can, as `.bin`. A line of output is a model in JSON: its folder, and each entry of its state dict by name, with
dtype, shape, and elements in hexadecimal. `load` prints the same for models in these folders.
"""

import json
import pathlib
import sys
import warnings

import torch
import transformers

warnings.simplefilter("ignore")
transformers.logging.set_verbosity_error()


def models():
    sizes = dict(vocab_size=64, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24)
    for tied in (False, True):
        config = transformers.LlamaConfig(**sizes, num_key_value_heads=2, tie_word_embeddings=tied)
        yield f"llama-{'tied' if tied else 'untied'}", transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    config = transformers.GPT2Config(vocab_size=64, n_positions=8, n_embd=16, n_layer=2, n_head=2)
    yield "gpt2", transformers.GPT2LMHeadModel(config)
    yield "bert", transformers.BertForMaskedLM(transformers.BertConfig(**sizes, max_position_embeddings=8)).half()


def show(folder, model):
    tensors = {}
    for name, tensor in model.state_dict().items():
        data = tensor.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes().hex()
        tensors[name] = [str(tensor.dtype).removeprefix("torch."), list(tensor.shape), data]
    print(json.dumps({"folder": str(folder), "tensors": tensors}))


def save(folder):
    torch.manual_seed(1)
    ways = {"one": {}, "shards": {"max_shard_size": "4KB"}}
    if transformers.__version__.startswith("4."):
        ways |= {f"bin-{name}": way | {"safe_serialization": False} for name, way in ways.items()}
    for name, model in models():
        for way, options in ways.items():
            target = folder / f"{name}-{way}"
            model.save_pretrained(target, **options)
            show(target.name, model)


def load(folder):
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = getattr(transformers, config.architectures[0])
    # Not one may be missing, other than those that are tied.
    model, report = kind.from_pretrained(folder, torch_dtype="auto", output_loading_info=True)
    assert not any(report.get(kind) for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
    show(pathlib.Path(folder).name, model)


if sys.argv[1] == "save":
    save(pathlib.Path(sys.argv[2]))
else:
    for folder in sys.argv[2:]:
        load(folder)
