"""Quantized weights: recognized, never cast in silence, decoded on request."""

import hashlib
import json
import pathlib
import pickle

import numpy
import pytest

import tensorfile

CASES = pathlib.Path(__file__).parents[2] / "tests" / "fixtures" / "quant"


def cases(kind):
    for path in sorted((CASES / "expected").glob("*.json")):
        expected = json.loads(path.read_text())
        if expected["kind"] == kind:
            folder = CASES / path.stem
            files = [folder / name for name in ("model.gguf", "flux.safetensors")]
            yield next((file for file in files if file.exists()), folder), expected["tensors"]


def digest(array):
    """Return the digest of little-endian elements, with one NaN for all."""
    bits = numpy.ascontiguousarray(array, "<f4").view("<u4").copy()
    bits[numpy.isnan(array)] = 0x7FC00000
    return hashlib.sha256(bits.tobytes()).hexdigest()


@pytest.mark.parametrize(("path", "expected"), list(cases("quantized")), ids=lambda value: getattr(value, "stem", ""))
def test_weights_are_right_to_the_bit(path, expected):
    with tensorfile.open(path, dequantize=True) as file:
        assert file.quantized() == []
        for name, weight in expected.items():
            array = numpy.asarray(file[name])
            assert (array.dtype, list(array.shape)) == (numpy.float32, weight["shape"])
            assert digest(array) == weight["f32"]


def test_what_is_recognized_is_told():
    with tensorfile.open(CASES / "fp8-block") as file:
        [weight] = file.quantized()
        name = "model.layers.0.mlp.down_proj.weight"
        assert weight == {
            "name": name,
            "scheme": "fp8",
            "details": "blocks of 128 x 128",
            "shape": (132, 136),
            "parts": [("codes", name), ("scale", f"{name}_scale_inv")],
        }
    with tensorfile.open(CASES / "ambiguous-fp8-shape") as file:
        [unknown] = file.quantized()
        assert (unknown["scheme"], unknown["shape"]) == ("unknown", None)
        assert any("quantized weight" in warning for warning in file.warnings)
    with pytest.raises(tensorfile.FormatError, match="denied"):
        tensorfile.open(CASES / "ambiguous-fp8-shape", deny="quantization")


def test_casts_of_codes_are_refused(tmp_path):
    target = tmp_path / "out.safetensors"
    with pytest.raises(ValueError, match="`dequantize=True` decodes them, `as_stored=True` casts the stored numbers"):
        tensorfile.convert(CASES / "fp8-block", target, dtype="bf16")
    assert not target.exists()
    tensorfile.convert(CASES / "fp8-block", target, dtype="bf16", as_stored=True)
    assert "model.layers.0.mlp.down_proj.weight_scale_inv" in tensorfile.open(target)
    tensorfile.convert(CASES / "fp8-block", target, dtype="bf16", dequantize=True)
    with tensorfile.open(target) as file:
        assert "model.layers.0.mlp.down_proj.weight_scale_inv" not in file
        assert repr(file["model.layers.0.mlp.down_proj.weight"]).endswith("bf16[132, 136]>")


def test_a_dtype_may_be_named_and_a_file_pickled():
    name = "model.layers.0.mlp.down_proj.weight"
    with tensorfile.open(CASES / "fp8-block", dequantize="f16") as file:
        again = pickle.loads(pickle.dumps(file))
        assert again[name].dtype == file[name].dtype == "f16"
        part = numpy.asarray(file[name][5:9, 100:])
        assert part.tobytes() == numpy.asarray(file[name])[5:9, 100:].tobytes()
    with pytest.raises(ValueError, match="weights are decoded to f32, bf16 or f16"):
        tensorfile.open(CASES / "fp8-block", dequantize="i8")


def test_one_tensor_or_a_whole_file_is_decoded():
    name = "model.layers.0.mlp.down_proj.weight"
    with tensorfile.open(CASES / "fp8-block", dequantize=True) as file:
        expected = numpy.asarray(file[name])
    with tensorfile.open(CASES / "fp8-block") as file:
        weight = file[name].dequantize()
        assert (weight.name, weight.dtype) == (name, "f32")
        assert numpy.array_equal(numpy.asarray(weight), expected)
        assert numpy.array_equal(weight[3:5, 1:], expected[3:5, 1:])
        assert file[name].dequantize("f16").dtype == "f16"
        assert file[name].dtype == "f8_e4m3fn"
        with pytest.raises(ValueError, match="is the scale of"):
            file[f"{name}_scale_inv"].dequantize()
        with pytest.raises(ValueError, match="not a dtype"):
            file[name].dequantize("f33")
        others = [tensor for tensor in file.values() if not tensor.name.startswith(name)]
        assert [tensor.dequantize() for tensor in others] == others
        decoded = file.dequantize("bf16")
        assert decoded[name].dtype == "bf16"
        again = pickle.loads(pickle.dumps(decoded))
        assert again[name].digest() == decoded[name].digest()
        spec = {name: ("f32", expected.shape)}
        assert list(tensorfile.check(file, spec, allow_unknown=True).wrong_dtype) == [name]
        assert tensorfile.check(file, spec, allow_unknown=True, dequantize=True).ok
        assert tensorfile.check(CASES / "fp8-block", {name: ("bf16", None)}, allow_unknown=True, dequantize="bf16").ok
