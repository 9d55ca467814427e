"""The program `tensorfile`, in this process: `python -m tensorfile ls model.safetensors`."""

import sys

from . import _tensorfile


def main() -> None:
    """Run the program with the arguments of this process."""
    sys.exit(_tensorfile.main(["tensorfile", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
