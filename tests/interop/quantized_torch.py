"""Quantizes random weights with compressed-tensors, bitsandbytes, transformers and ModelOpt, and decodes them with the same.

    python quantized_torch.py FOLDER SEED

Each folder in FOLDER is a model as the program saves it, with what the program decodes in `expected.safetensors`. All runs on the
CPU.
"""

import json
import pathlib
import sys

import torch
from safetensors.torch import save_file

SHAPES = [(96, 256), (128, 384), (264, 640)]


def compressed_tensors(add):
    from compressed_tensors.compressors.base import BaseCompressor
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.compressors.mx_utils import decompress_mx_scale
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.lifecycle.forward import dequantize

    def config(format, args):
        weights = json.loads(args.model_dump_json())
        groups = {"group_0": {"targets": ["Linear"], "weights": weights, "format": format}}
        return {"quant_method": "compressed-tensors", "format": format, "config_groups": groups}

    def run(name, format, shape, scale, zero=None, **weights):
        args = QuantizationArgs(**weights)
        scheme = QuantizationScheme(targets=["Linear"], weights=args)
        state = {"weight": torch.randn(shape), "weight_scale": scale}
        if zero is not None:
            state["weight_zero_point"] = zero
        compressor = BaseCompressor.get_value_from_registry(format)
        stored = compressor.compress(state, scheme)
        weight = compressor.decompress(dict(stored), scheme)["weight"]
        add(name, config(format, args), {f"a.{key}": value for key, value in stored.items()}, {"a.weight": weight})

    for rows, columns in SHAPES:
        for bits in range(1, 9):
            for group in (32, 128, columns):
                groups = columns // group
                kind = {"strategy": "group", "group_size": group} if groups > 1 else {"strategy": "channel"}
                scale = torch.rand(rows, groups) / 7 + 0.01
                common = {"num_bits": bits, "type": "int", **kind}
                run(f"packed{bits}-{group}-{rows}", "pack-quantized", (rows, columns), scale, symmetric=True, **common)
                low = 2 ** (bits - 1)
                zero = torch.randint(-low, low, (rows, groups), dtype=torch.int8)
                name = f"packed{bits}-{group}-{rows}-zero"
                run(name, "pack-quantized", (rows, columns), scale, zero, symmetric=False, **common)
        rows_scale = torch.rand(rows, 1) / 50 + 0.001
        run(f"int8-{rows}", "int-quantized", (rows, columns), rows_scale, num_bits=8, type="int", strategy="channel")
        zero = torch.randint(-128, 128, (rows, 1), dtype=torch.int8)
        common = {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": False}
        run(f"int8-{rows}-zero", "int-quantized", (rows, columns), rows_scale, zero, **common)
        fp8 = {"num_bits": 8, "type": "float"}
        run(f"fp8-row-{rows}", "float-quantized", (rows, columns), rows_scale, strategy="channel", **fp8)
        run(f"fp8-tensor-{rows}", "float-quantized", (rows, columns), torch.rand(1) / 50, strategy="tensor", **fp8)
        blocks = torch.rand(-(-rows // 128), columns // 128) / 50
        common = {**fp8, "strategy": "block", "block_structure": [128, 128]}
        run(f"fp8-block-{rows}", "float-quantized", (rows, columns), blocks, **common)

        # These are decoded in bf16 there; the same function in f32 is what the codes and scales mean.
        for format, group, strategy in [("nvfp4-pack-quantized", 16, "tensor_group"), ("mxfp4-pack-quantized", 32, "group")]:
            args = QuantizationArgs(num_bits=4, type="float", strategy=strategy, group_size=group, symmetric=True)
            scheme = QuantizationScheme(targets=["Linear"], weights=args)
            state = {"weight": torch.randn(rows, columns), "weight_scale": torch.rand(rows, columns // group) + 0.1}
            if group == 16:
                state["weight_global_scale"] = torch.tensor([37.5])
            stored = BaseCompressor.get_value_from_registry(format).compress(state, scheme)
            codes = unpack_fp4_from_uint8(stored["weight_packed"], rows, columns, dtype=torch.float32)
            scale = stored["weight_scale"]
            scale = scale.float() if group == 16 else decompress_mx_scale(scale).float()
            global_scale = stored.get("weight_global_scale")
            weight = dequantize(codes, scale, args=args, global_scale=global_scale, dtype=torch.float32)
            tensors = {f"a.{key}": value for key, value in stored.items()}
            add(f"{format}-{rows}", config(format, args), tensors, {"a.weight": weight})


def bitsandbytes(add):
    from bitsandbytes import functional

    for rows, columns in SHAPES:
        for kind in ("nf4", "fp4"):
            for block in (64, 128, 256):
                for nested in (False, True):
                    weight = torch.randn(rows, columns)
                    codes, state = functional.quantize_4bit(
                        weight, blocksize=block, compress_statistics=nested, quant_type=kind
                    )
                    tensors = {"a.weight": codes}
                    tensors |= {f"a.weight.{key}": value for key, value in state.as_dict(packed=True).items()}
                    config = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": kind}
                    # The CPU's kernel has -0 for code 8 of FP4; the default one and the table in the file have 0.
                    decoded = functional.dequantize_4bit(codes, state) + 0.0
                    add(f"{kind}-{block}-{nested}-{rows}", config, tensors, {"a.weight": decoded})
        codes, scale, _ = functional.int8_vectorwise_quant(torch.randn(rows, columns).half())
        decoded = functional.int8_vectorwise_dequant(codes, scale)
        config = {"quant_method": "bitsandbytes", "load_in_8bit": True}
        add(f"llm-int8-{rows}", config, {"a.weight": codes, "a.SCB": scale}, {"a.weight": decoded.float()})


def transformers(add):
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    for rows, columns in [(128, 256), (256, 640)]:
        codes = (torch.randn(rows, columns) * 90).clamp(-448, 448).to(torch.float8_e4m3fn)
        scale = torch.rand(rows // 128, columns // 128) / 50
        decoded = Fp8Dequantize(None)._dequantize_one(codes, scale, torch.float32)
        config = {"quant_method": "fp8", "weight_block_size": [128, 128]}
        add(f"fp8-{rows}", config, {"a.weight": codes, "a.weight_scale_inv": scale}, {"a.weight": decoded})

        blocks = torch.randint(0, 256, (3, rows, columns // 32, 16), dtype=torch.uint8)
        scales = torch.randint(100, 150, (3, rows, columns // 32), dtype=torch.uint8)
        decoded = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
        tensors = {"a.down_proj_blocks": blocks, "a.down_proj_scales": scales}
        add(f"mxfp4-{rows}", {"quant_method": "mxfp4"}, tensors, {"a.down_proj": decoded})


def modelopt(add):
    from modelopt.torch.quantization.qtensor import FP8QTensor, MXFP8QTensor, NVFP4QTensor

    def config(algorithm):
        return {"quant_method": "modelopt", "quant_algo": algorithm, "producer": {"name": "modelopt"}}

    for rows, columns in SHAPES:
        weight = torch.randn(rows, columns)
        stored, scale, second = NVFP4QTensor.quantize(weight, 16)
        # As the export casts it.
        scale = scale.to(torch.float8_e4m3fn)
        decoded = stored.dequantize(torch.float32, scale=scale, double_scale=second, block_sizes={-1: 16})
        tensors = {"a.weight": stored._quantized_data, "a.weight_scale": scale, "a.weight_scale_2": second}
        add(f"nvfp4-{rows}", config("NVFP4"), tensors, {"a.weight": decoded})

        stored, scale = FP8QTensor.quantize(weight)
        scale = scale.reshape(())
        decoded = stored.dequantize(torch.float32, scale=scale)
        tensors = {"a.weight": stored._quantized_data, "a.weight_scale": scale, "a.input_scale": torch.tensor(0.5)}
        add(f"fp8-{rows}", config("FP8"), tensors, {"a.weight": decoded})

        stored, scale = MXFP8QTensor.quantize(weight)
        decoded = stored.dequantize(torch.float32, scale=scale)
        tensors = {"a.weight": stored._quantized_data, "a.weight_scale": scale}
        add(f"mxfp8-{rows}", config("MXFP8"), tensors, {"a.weight": decoded})


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(int(sys.argv[2]))
    for software in (compressed_tensors, bitsandbytes, transformers, modelopt):

        def add(name, config, tensors, expected, software=software):
            place = folder / f"{software.__name__}-{name}"
            place.mkdir()
            (place / "config.json").write_text(json.dumps({"quantization_config": config}))
            save_file({key: value.contiguous() for key, value in tensors.items()}, place / "model.safetensors")
            weights = {key: value.float().contiguous() for key, value in expected.items()}
            save_file(weights, place / "expected.safetensors")

        software(add)


main()
