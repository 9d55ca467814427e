"""Prints the tensors that PyTorch reads from a file, copied and mapped, without running anything that is in it.

    python torch_reads.py FILE

A line of JSON for each of the two ways: by name, in the order of the file, the dtype, the shape, the strides, the address
modulo 64, the number of the first tensor with the same storage, and the bytes in row-major order as hexadecimal digits.
"""

import json
import sys

import torch


def line(tensors):
    found, storages = {}, []
    for name, tensor in tensors.items():
        storage = tensor.untyped_storage().data_ptr()
        storages.append(storage)
        # A tensor on the device `meta` is alone in having strides and no elements.
        elements = tensor.contiguous()
        elements = elements.view(torch.uint8) if elements.ndim else elements.reshape(1).view(torch.uint8)
        found[name] = {
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "shape": list(tensor.shape),
            "strides": list(tensor.stride()),
            "misaligned": tensor.data_ptr() % 64,
            "first": storages.index(storage) if tensor.numel() else None,
            "elements": bytes(elements.flatten().tolist()).hex(),
        }
    return json.dumps(found)


def main():
    for mmap in [False, True]:
        print(line(torch.load(sys.argv[1], weights_only=True, mmap=mmap)))


main()
