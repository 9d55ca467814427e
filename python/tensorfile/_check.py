"""Comparisons of files with expected names, dtypes and shapes."""

from __future__ import annotations

import dataclasses
import difflib
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional

from ._tensorfile import File, MismatchError, Tensor, open
from ._types import Path, Reader, dtype_name

# A dtype and a shape; `None` is any.
Spec = tuple[Any, Optional[Sequence[Optional[int]]]]


@dataclasses.dataclass
class LoadReport:
    """All differences between a file and a spec. If you print it, you get the report of the Rust library, line by line."""

    tensors: int
    """The number of tensors in the file."""
    missing: dict[str, str]
    """Tensors that only the spec has, by name: their expected dtype and shape."""
    unexpected: dict[str, str]
    """Tensors that only the file has, by name: their dtype and shape."""
    wrong_dtype: dict[str, tuple[str, str]]
    """Dtype and shape in the file, and the expected dtype."""
    wrong_shape: dict[str, tuple[str, str]]
    """Dtype and shape in the file, and the expected shape."""

    @property
    def ok(self) -> bool:
        """Whether the file fits."""
        return not (self.missing or self.unexpected or self.wrong_dtype or self.wrong_shape)

    def raise_for_mismatch(self) -> None:
        """Raise a `MismatchError` with this report, unless the file fits."""
        if not self.ok:
            error = MismatchError(str(self))
            error.report = self
            raise error

    def __str__(self) -> str:
        """Return the report as text."""
        sections = {
            "missing": [
                f"`{name}`  {expected}{near(name, self.unexpected)}" for name, expected in self.missing.items()
            ],
            "unexpected": [f"`{name}`  {found}" for name, found in self.unexpected.items()],
            "wrong dtype": misfits(self.wrong_dtype),
            "wrong shape": misfits(self.wrong_shape),
        }
        counts = [f"{len(lines)} {title}" for title, lines in sections.items() if lines]
        fit = self.tensors - len(self.unexpected) - len(self.wrong_dtype) - len(self.wrong_shape)
        verb = "fits" if self.tensors == 1 else "fit"
        noun = "tensor" if self.tensors == 1 else "tensors"
        text = [f"{', '.join(counts)}; {fit} of {self.tensors} {noun} {verb}" if counts else f"all {self.tensors} {noun} {verb}"]
        for title, lines in sections.items():
            if lines:
                text += [f"{title}:", *(f"  {line}" for line in lines)]
        return "\n".join(text)


# `raise_for_mismatch` sets the report; other mismatches have none.
MismatchError.report = None


def misfits(tensors: Mapping[str, tuple[str, str]]) -> list[str]:
    return [f"`{name}`  {found}, but expected {expected}" for name, (found, expected) in tensors.items()]


def near(name: str, names: Iterable[str]) -> str:
    similar = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean `{similar[0]}`?" if similar else ""


def check(
    path: Path | Reader | File,
    spec: Mapping[str, Spec],
    *,
    allow_unknown: bool = False,
    dequantize: bool | str = False,
) -> LoadReport:
    """Compare a file with the dtypes and shapes that you expect, by name. No tensor is read.

    Write `None` for any dtype, any shape, or any size of a dim. With `allow_unknown`, the file may have more tensors. Give a
    dtype by its name in files, such as `"bf16"`, or as one of numpy or torch, such as `numpy.float32`. `"f4"` is numpy's
    name of `"f32"`.

    With `dequantize`, quantized weights are compared as they are when they are decoded: to f32, or to a dtype such as `"bf16"`.

    >>> import numpy, tensorfile
    >>> tensorfile.save("doctest.ptd", {"w": numpy.zeros((3, 64), "f4"), "bais": numpy.zeros(3, "f4")})
    >>> tensorfile.check("doctest.ptd", {"w": ("f32", (None, 64)), "bais": ("f32", (3,))}).ok
    True
    >>> print(tensorfile.check("doctest.ptd", {"w": ("f16", (None, 32)), "bias": ("f32", (3,))}))
    1 missing, 1 unexpected, 1 wrong dtype; 0 of 2 tensors fit
    missing:
      `bias`  f32[3]; did you mean `bais`?
    unexpected:
      `bais`  f32[3]
    wrong dtype:
      `w`  f32[3, 64], but expected f16
    """
    file = path if isinstance(path, File) else open(path)
    if dequantize:
        file = file.dequantize("f32" if dequantize is True else dequantize)
    found = dict(file.items())
    report = LoadReport(len(found), {}, {}, {}, {})
    for name, (dtype, shape) in checked(spec).items():
        tensor = found.pop(name, None)
        if tensor is None:
            report.missing[name] = shown(dtype, shape)
        elif dtype not in (None, tensor.dtype):
            report.wrong_dtype[name] = described(tensor), str(dtype)
        elif shape is not None and not fits(tensor.shape, shape):
            report.wrong_shape[name] = described(tensor), shown(None, shape)
    if not allow_unknown:
        report.unexpected = {name: described(tensor) for name, tensor in found.items()}
    return report


def checked(spec: Mapping[str, Spec]) -> dict[str, tuple[str | None, tuple[int | None, ...] | None]]:
    """Return a spec with dtypes named as in files. Anything else in a spec is an error, because it could not fit any file."""
    if not isinstance(spec, Mapping):
        raise TypeError(f"a spec is a dict of names, each with a dtype and a shape, not a {type(spec).__name__}")
    found = {}
    for name, expected in spec.items():
        if not isinstance(name, str):
            raise TypeError(f"the spec has the name {name!r}, which is a {type(name).__name__}, not a string")
        if not isinstance(expected, (tuple, list)) or len(expected) != 2:
            raise TypeError(f"the spec of `{name}` is {expected!r}; it is a dtype and a shape, such as ('f32', (None, 3))")
        dtype, shape = expected
        try:
            dtype = None if dtype is None else dtype_name(dtype)
            shape = None if shape is None else tuple(None if dim is None else operator.index(dim) for dim in shape)
        except (TypeError, ValueError) as error:
            raise type(error)(f"the spec of `{name}` is {expected!r}: {error}") from None
        if shape is not None and any(dim is not None and dim < 0 for dim in shape):
            raise ValueError(f"the spec of `{name}` is {expected!r}: a dim is negative; None is any length")
        found[name] = dtype, shape
    return found


def fits(shape: tuple[int, ...], expected: tuple[int | None, ...]) -> bool:
    return len(shape) == len(expected) and all(dim in (None, found) for found, dim in zip(shape, expected))


def described(tensor: Tensor) -> str:
    return shown(tensor.dtype, tensor.shape)


def shown(dtype: str | None, shape: tuple[int | None, ...] | None) -> str:
    dims = "" if shape is None else f"[{', '.join('_' if dim is None else str(dim) for dim in shape)}]"
    return f"{dtype or ''}{dims}" or "any tensor"
