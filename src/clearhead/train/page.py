"""report.html: one page that tells the run, with curves, samples, scores, recipe and machine. No script, no network.

All text of a run reaches the page escaped; a policy in its head forbids everything but its own style.
"""

import platform
from collections.abc import Mapping, Sequence
from html import escape
from math import floor, isfinite, log10
from typing import Any

import torch

from clearhead.train.progress import memory
from clearhead.train.spread import Spread

Points = Sequence[tuple[float, float]]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 260, 56, 12, 12, 34
MOST = 600  # points of a curve

STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --soft: #60646c; --line: #d9dce1; --paper: #ffffff; --card: #f7f8fa;
  --first: #2563b0; --second: #c2410c; }
@media (prefers-color-scheme: dark) { :root { --ink: #eceef1; --soft: #a3a9b3; --line: #3a3f47; --paper: #16181c;
  --card: #1e2126; --first: #7db4f5; --second: #fb9d63; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 800px; padding: 2rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p.sub { color: var(--soft); margin: 0 0 1.5rem; }
dl.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(130px, 1fr)); gap: .75rem; margin: 0 0 1rem; }
dl.facts div { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .6rem .8rem; }
dt { color: var(--soft); font-size: .85rem; } dd { margin: 0; font-size: 1.15rem; font-variant-numeric: tabular-nums;
  overflow-wrap: anywhere; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .75rem; }
figcaption { color: var(--soft); font-size: .9rem; } svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--soft); font: 12px system-ui, sans-serif; } svg .grid { stroke: var(--line); }
svg polyline { fill: none; stroke-width: 1.8; stroke-linejoin: round; } .first { stroke: var(--first); }
.second { stroke: var(--second); } b.first { color: var(--first); } b.second { color: var(--second); }
svg circle { fill: var(--second); }
blockquote { margin: 0 0 .75rem; background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: .6rem .8rem; white-space: pre-wrap; overflow-wrap: anywhere; }
blockquote span { color: var(--soft); } .tag { display: block; font-size: .8rem; color: var(--soft); }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .75rem; overflow-x: auto;
  font-size: .85rem; }
table { border-collapse: collapse; width: 100%; } td { padding: .25rem .5rem .25rem 0; vertical-align: top;
  border-top: 1px solid var(--line); overflow-wrap: anywhere; } td:first-child { color: var(--soft); width: 11rem; }
"""


def page(
    title: str,
    report: Mapping[str, Any],
    log: Sequence[Mapping[str, Any]],
    samples: Sequence[Mapping[str, Any]],
    recipe: str,
    machine: Mapping[str, Any],
) -> str:
    """The page as HTML. report, log, samples: as the run's JSON files have them; the report has samples of its own."""
    ended = [{"step": report["steps"], **sample} for sample in report.get("samples", ())]
    before = [sample for sample in reversed(samples) if sample["step"] != report["steps"] or not ended]
    said = "".join(_sample(sample) for sample in [*ended, *before])
    alarms = [f"step {line['step']}: {said}" for line in log for said in line.get("alarms", ())]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f'<h1>{escape(title)}</h1>\n<p class="sub">{_words(report["parameters"])} parameters, '
        f"{_words(report['steps'])} steps, {_words(report['tokens'])} target tokens, "
        f"{_time(report['train_seconds'])}</p>\n"
        f"{_facts(report)}\n{_curves(log)}\n"
        + (f"<h2>Alarms</h2>\n<ul>{''.join(f'<li>{escape(one)}</li>' for one in alarms)}</ul>\n" if alarms else "")
        + (f"<h2>Samples</h2>\n{said}\n" if said else "")
        + f"<h2>Recipe</h2>\n<pre>{escape(recipe)}</pre>\n<h2>Machine</h2>\n{_table(machine)}\n"
        "</main>\n</body>\n</html>\n"
    )


def machine(here: Spread) -> dict[str, Any]:
    """Where it was trained."""
    return {
        "system": platform.platform(),
        "processor": f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}",
        "device": torch.cuda.get_device_name(here.device) if here.device.startswith("cuda") else here.device,
        "processes": here.ranks,
        "threads": torch.get_num_threads(),
        "Python": platform.python_version(),
        "torch": torch.__version__,
        "most memory": f"{memory():.2f} GB",
    }


def _facts(report: Mapping[str, Any]) -> str:
    names = {
        "validation_loss": "validation loss",
        "perplexity": "perplexity",
        "bits_per_byte": "bits per byte",
        "accuracy": "accuracy",
        "bleu": "BLEU",
        "chrf": "chrF",
        "training_loss": "training loss",
    }
    found = {text: report[name] for name, text in names.items() if report.get(name) is not None}
    cells = "".join(f"<div><dt>{text}</dt><dd>{_words(value)}</dd></div>" for text, value in found.items())
    rest = {name: report[name] for name in ("given", "bleu_signature", "chrf_signature") if report.get(name)}
    return f'<dl class="facts">{cells}</dl>' + (f"\n{_table(rest)}" if rest else "")


def _curves(log: Sequence[Mapping[str, Any]]) -> str:
    loss = [(line["step"], line["loss"]) for line in log]
    scores = [(line["step"], line["validation_loss"]) for line in log if "validation_loss" in line]
    rate = [(line["step"], line["rate"]) for line in log]
    speed = [(line["step"], line["tokens"] / line["seconds"]) for line in log if line["seconds"] > 0]
    legend = '<b class="first">training</b>' + (' and <b class="second">validation</b>' if scores else "")
    return (
        f"<h2>Loss</h2>\n<figure>{chart(loss, scores)}<figcaption>{legend} loss, in nats per target token, by step"
        "</figcaption></figure>\n"
        f"<h2>Learning rate</h2>\n<figure>{chart(rate)}<figcaption>of the first optimizer, by step"
        "</figcaption></figure>\n"
        f"<h2>Speed</h2>\n<figure>{chart(speed)}<figcaption>target tokens per second, by step</figcaption></figure>"
    )


def chart(first: Points, second: Points = ()) -> str:
    """One or two curves over the steps as SVG; numbers that are not finite are left out."""
    first, second = (fewer([p for p in points if isfinite(p[1])]) for points in (first, second))
    every = [*first, *second]
    if not every:
        return ""
    ends = [(min(values), max(values)) for values in zip(*every, strict=True)]
    (left, right), (low, high) = ((a, b if b > a else a + 1) for a, b in ends)

    def at(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (x - left) / (right - left) * (WIDTH - LEFT - RIGHT)
        return across, HEIGHT - BOTTOM - (y - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts: list[str] = []
    for y in _ticks(low, high):
        _, down = at(left, y)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{down:.1f}" y2="{down:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{down + 4:.1f}" text-anchor="end">{y:.4g}</text>')
    for x in _ticks(left, right):
        parts.append(f'<text x="{at(x, low)[0]:.1f}" y="{HEIGHT - 10}" text-anchor="middle">{x:,.10g}</text>')
    for name, points in (("first", first), ("second", second)):
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in points))
        parts.append(f'<polyline class="{name}" points="{places}"/>')
    parts += [f'<circle r="3" cx="{x:.1f}" cy="{y:.1f}"/>' for x, y in (at(*point) for point in second)]
    name = f"from {every[0][1]:.4g} to {first[-1][1]:.4g}" if first else "curve"
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{name}">{"".join(parts)}</svg>'


def fewer(points: Points) -> Points:
    """At most MOST points, each the mean of its neighbours."""
    size = -(-len(points) // MOST)
    groups = [points[i : i + size] for i in range(0, len(points), size)] if size > 1 else [[p] for p in points]
    return [(group[-1][0], sum(y for _, y in group) / len(group)) for group in groups]


def _ticks(low: float, high: float) -> list[float]:
    """About five round numbers in between."""
    rough = (high - low) / 5
    unit = 10.0 ** floor(log10(rough))
    step = next(unit * times for times in (1, 2, 5, 10) if unit * times >= rough)
    first = -(-low // step)
    return [round((first + i) * step, 12) for i in range(int(high // step - first) + 1)]


def _sample(sample: Mapping[str, Any]) -> str:
    given = f"<span>{escape(str(sample['given']))}</span>"
    said, target = str(sample["sample"]), sample.get("target")
    said = said.removeprefix(str(sample["given"])) if target is None else f"\n{said}"
    rest = "" if target is None else f'\n<span class="tag">in the file</span>{escape(str(target))}'
    return f'<blockquote><span class="tag">step {sample["step"]}</span>{given}{escape(said)}{rest}</blockquote>\n'


def _table(rows: Mapping[str, Any]) -> str:
    cells = (f"<tr><td>{escape(name)}</td><td>{escape(_words(value))}</td></tr>" for name, value in rows.items())
    return f"<table>{''.join(cells)}</table>"


def _words(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"
