"""Draw the README's picture from a finished demo: python docs/picture.py runs/demo docs/demo.svg"""

import io
import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.text import Text

import clearhead
from clearhead.demo.score import cross_weights
from clearhead.demo.task import Task
from clearhead.families.store import read_json
from clearhead.view.terminal import heat_map

# rich's own template loads fonts from the network; this one uses what the reader has.
TEMPLATE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" class="rich-terminal">
<style>.{unique_id}-matrix {{font-family: ui-monospace, Menlo, Consolas, monospace; font-size: {char_height}px;
line-height: {line_height}px; white-space: pre}} {styles}</style>
<defs>{lines}</defs><rect width="100%" height="100%" rx="8" fill="#161b22"/>
<g transform="translate({terminal_x}, 18)">{backgrounds}
<g class="{unique_id}-matrix" xml:space="preserve">{matrix}</g></g></svg>
"""


def main(folder: str, picture: str) -> None:
    """The demo's cross-attention for one number, as an SVG without anything from elsewhere."""
    model, task, report = clearhead.load(folder), Task(), read_json(Path(folder) / "report.json")
    number = np.array([347])
    batch = task.batch(number)
    weights = cross_weights(model, task, number)[0, report["alignment_head"]].tolist()
    rows = task.tokenizer.pieces(batch["labels"][0])
    columns = task.tokenizer.pieces(batch["input_ids"][0], target=False)
    text = Text('$ clearhead translate runs/demo "three hundred and forty-seven"\n', style="bold")
    text.append(clearhead.translate(model, "three hundred and forty-seven") + "\n\n", style="not bold")
    text.append_text(heat_map(weights, rows, columns))
    console = Console(record=True, width=66, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(text)
    console.save_svg(picture, title="clearhead", code_format=TEMPLATE)


if __name__ == "__main__":
    main(*sys.argv[1:])
