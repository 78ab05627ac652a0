"""What one line can break: embeddings of unit variance times sqrt(D) drown the positions, and order is lost.

python benchmarks/drowned.py
"""

import argparse
import itertools
from dataclasses import replace

import torch

from clearhead.demo.numbers import draws
from clearhead.demo.run import TESTED, Plan
from clearhead.demo.score import exact_match
from clearhead.demo.task import Task
from clearhead.model.transformer import Transformer
from clearhead.train.loop import train
from clearhead.train.optimizer import Rates


def main() -> None:
    """Train with and without the factor, by AdamW and by Muon; print the share of unseen numbers right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="by default the demo's")
    chosen = parser.parse_args()
    task = Task()
    plan = Plan(task=task, seed=chosen.seed, steps=chosen.steps)
    plain = task.config()
    assert plain.encoder is not None
    assert plain.decoder is not None
    ways = {"AdamW": replace(plan.args, rates=Rates(adamw=2e-3)), "Muon": plan.args}
    for (name, args), scale in itertools.product(ways.items(), (1.0, plain.dim**0.5)):
        torch.manual_seed(chosen.seed)
        model = Transformer(plain)
        # The factor comes in after the draw: embeddings keep unit variance, as if nobody had thought of it.
        for stack in (model.encoder, model.decoder):
            assert stack is not None
            stack.form = replace(stack.form, embedding_scale=scale)
        history = train(model, task.stream(chosen.seed), args)
        share = exact_match(model, task, draws("hashed", TESTED)).share
        print(f"{name}, embedding x {scale:g}: {100 * share:.2f} % right after {len(history.losses)} steps", flush=True)


if __name__ == "__main__":
    main()
