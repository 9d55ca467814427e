"""Files in another layout."""

import pathlib
import pickle

import numpy
import pytest

import tensorfile

CASES = pathlib.Path(__file__).parents[2] / "tests" / "fixtures" / "maps"


@pytest.mark.parametrize(("case", "name"), [("fused", "fused"), ("llama_gguf", "llama-gguf"), ("qwen3_moe", "qwen3-moe")])
def test_cases_are_equal_both_ways(case, name, tmp_path):
    folder = CASES / "cases" / case
    left, right = (tensorfile.open(folder / f"{side}.safetensors") for side in ("left", "right"))
    layout = tensorfile.LayoutMap(name)
    for source, map, target in [("left", name, right), ("right", layout.inverted(), left)]:
        mapped = tensorfile.open(folder / f"{source}.safetensors", map=map)
        assert {name: tensor.digest() for name, tensor in mapped.items()} == {
            name: tensor.digest() for name, tensor in target.items()
        }
        again = pickle.loads(pickle.dumps(mapped))
        assert again.receipt() == mapped.receipt()
        receipt = mapped.receipt()
        assert (receipt["target"]["tensors"], receipt["left"]) == (len(target), 0)
        assert receipt["source"]["elements"] + receipt["made"] == receipt["target"]["elements"]
    assert left.receipt() is None
    tensorfile.convert(folder / "left.safetensors", tmp_path / "right.safetensors", map=layout)
    assert tensorfile.digest(tmp_path / "right.safetensors") == tensorfile.digest(folder / "right.safetensors")


def test_maps_are_made_and_shown():
    map = tensorfile.LayoutMap.parse("let n = 3\na [(n h)] = b [n h]")
    assert repr(map.inverted()) == "LayoutMap.parse(…).inverted()"
    assert repr(tensorfile.LayoutMap("fused")) == 'LayoutMap("fused")'
    assert map.set(n=2).text == map.text
    with pytest.raises(ValueError, match="there is no map `x`; the maps are fused, llama-gguf, qwen3-moe"):
        tensorfile.LayoutMap("x")
    with pytest.raises(TypeError, match="a map is a `LayoutMap`"):
        tensorfile.open("x.ten", map=3)
    with pytest.raises(ValueError, match="line 1, column"):
        tensorfile.LayoutMap.parse("a [(n] = b")


def test_what_does_not_fit_is_an_error(tmp_path):
    path = tmp_path / "a.safetensors"
    tensorfile.save(path, {"a": numpy.arange(6, dtype="i4"), "x": numpy.zeros(1, "i4")})
    map = tensorfile.LayoutMap.parse("let n = 3\na [(n h)] = b [n h]")
    with pytest.raises(ValueError, match="no rule uses `x`"):
        tensorfile.open(path, map=map)
    with pytest.raises(ValueError, match="no rule uses `x`"):
        tensorfile.convert(path, tmp_path / "b.safetensors", map=map)
    assert not (tmp_path / "b.safetensors").exists()
    kept = tensorfile.LayoutMap.parse(map.text + "\nkeep x").set(n=2)
    with tensorfile.open(path, map=kept) as file:
        assert numpy.array_equal(file["b"], [[0, 1, 2], [3, 4, 5]])
        assert numpy.array_equal(file["b"][1:, 1], [4])
    padded = tensorfile.LayoutMap.parse("let pad = 2\na [v+pad] = b [v]\ndrop x")
    with tensorfile.open(path, map=padded) as file, pytest.raises(ValueError, match="zero"):
        file["b"].numpy()
    with tensorfile.open(path, map=padded.lossy()) as file:
        assert numpy.array_equal(file["b"], [0, 1, 2, 3])


def test_another_configuration_may_be_named(tmp_path):
    path = tmp_path / "a.safetensors"
    tensorfile.save(path, {"a": numpy.arange(6, dtype="i4")})
    (tmp_path / "other.json").write_text('{"heads": 3}')
    map = tensorfile.LayoutMap.parse("let n = config.heads\na [(n h)] = b [n h]")
    with pytest.raises(ValueError, match="config.heads"):
        tensorfile.open(path, map=map)
    with tensorfile.open(path, map=map, config=tmp_path / "other.json") as file:
        assert pickle.loads(pickle.dumps(file))["b"].shape == file["b"].shape == (3, 2)
    target = tmp_path / "b.safetensors"
    tensorfile.convert(path, target, map=map, config=tmp_path / "other.json")
    assert tensorfile.open(target)["b"].shape == (3, 2)
