"""GGUF files to and from the Python package of llama.cpp.

    gguf_tensors.py read FILE              prints what is in a file as JSON
    gguf_tensors.py copy SOURCE TARGET     writes the tensors of a file to another one
    gguf_tensors.py model TARGET           writes a file with metadata of many types, and no tensors
    gguf_tensors.py types -                prints the elements and bytes of a block of each type as JSON
    gguf_tensors.py decode SOURCE TARGET   writes the weights of all tensors as f32, one after the other
    gguf_tensors.py split TARGET           writes a model of three tensors in files of one each
"""

import json
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGUFReader, GGUFWriter
from gguf.quants import dequantize


def describe(reader):
    tensors = [
        {
            "name": tensor.name,
            "dtype": tensor.tensor_type.name.lower(),
            "shape": [int(dim) for dim in reversed(tensor.shape)],
            "offset": int(tensor.data_offset),
            "data": tensor.data.tobytes().hex(),
        }
        for tensor in reader.tensors
    ]
    entries = {key: str(field.contents()) for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    types = {key: [kind.name for kind in field.types] for key, field in reader.fields.items() if key in entries}
    return {"metadata": entries, "types": types, "tensors": tensors}


def copy(reader, target):
    writer = GGUFWriter(target, "copy")
    for tensor in reader.tensors:
        # Of plain types the dims, of blocks those of their bytes.
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def model(target):
    writer = GGUFWriter(target, "llama")
    writer.add_block_count(12)
    writer.add_uint64("big", 2**63)
    writer.add_float32("rate", 0.1)
    writer.add_bool("flag", True)
    writer.add_string("general.name", "tiny")
    writer.add_array("tokenizer.ggml.tokens", [f"token {at}" for at in range(1000)])
    writer.add_array("tokenizer.ggml.scores", [0.5] * 1000)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def split(target):
    writer = GGUFWriter(target, "test", split_max_tensors=1)
    for at in range(3):
        writer.add_tensor(f"t{at}", np.full((2, 3), at, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def decode(reader, target):
    with open(target, "wb") as file, np.errstate(all="ignore"):
        for tensor in reader.tensors:
            file.write(dequantize(tensor.data, tensor.tensor_type).astype("<f4").tobytes())


command, source, *target = sys.argv[1:]
if command == "types":
    json.dump({kind.name.lower(): sizes for kind, sizes in GGML_QUANT_SIZES.items()}, sys.stdout)
elif command == "decode":
    decode(GGUFReader(source), *target)
elif command == "model":
    model(source)
elif command == "split":
    split(source)
elif command == "read":
    json.dump(describe(GGUFReader(source)), sys.stdout)
else:
    copy(GGUFReader(source), *target)
