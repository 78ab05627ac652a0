"""From trials to a verdict: right, one known mistake, two together, or a guess."""

from __future__ import annotations

import re
from dataclasses import replace

from clearhead.checker import extras
from clearhead.checker.engine import Failed, close
from clearhead.checker.evidence import explain
from clearhead.checker.judge import Trial, explanations, ran, right
from clearhead.checker.mistake import Mistake
from clearhead.checker.setup import Setup, Verdict
from clearhead.checker.source import Source
from clearhead.checker.subject import Subject

FEW = 6  # of those that all fail

SURE = 3


def quality(verdict: Verdict) -> int:
    """How well a verdict explains the numbers: 3 wholly, 2 by two mistakes, 1 partly, 0 not at all."""
    if verdict.passed is None:
        return 0
    whole = verdict.passed or verdict.certainty.startswith(("measured", "reproduced:", "reproduced, errors"))
    return SURE if whole else 2 if verdict.certainty.startswith("reproduced by two") else 1


def settle(trials: list[Trial], source: Source) -> Verdict | None:
    """Right under some way of calling, or the single mistake of the likeliest one; None when there is neither."""
    ranks = {t.setup.rank for t in trials}
    for trial in trials:
        if trial.setup.rank == 2 and ranks - {2}:
            continue
        if trial.setup.rank == 4 and 3 in ranks and not re.search(r"(?i)head|\bh\b", source.text):
            continue  # nothing in the file speaks of heads: it is judged as (B, T, d)
        convention = right(trial.run())
        if convention is not None:
            return accept(trial, convention)
    return single_mistake([trial.run() for trial in leading(trials)], source)


def leading(trials: list[Trial]) -> list[Trial]:
    """Two mask forms at most for each rank and convention: enough to explain by."""
    kept: list[Trial] = []
    for trial in trials:
        s = trial.setup
        like = [t for t in kept if (t.setup.rank, t.setup.mask, t.setup.causal) == (s.rank, s.mask, s.causal)]
        if any(replace(t.setup, make=s.make) == s and close(trial.answers[0], t.answers[0], 1e-9) for t in like):
            continue  # another start with the same numbers
        if len(like) < 2 and len(kept) < (4 if s.task == "kv_cache" else 8):
            kept.append(trial)
    return kept


def accept(trial: Trial, convention: str) -> Verdict:
    """Right in its numbers; what else may be wrong is looked at now."""
    wrong = extras.look(trial)
    verdict = Verdict(trial.setup.task, not wrong, [m for m, _ in wrong], "", inferred=inferred(trial))
    if wrong:
        verdict.certainty = "measured"
        verdict.evidence = [line for _, line in wrong]
    elif convention:
        verdict.inferred["convention"] = convention
    return verdict


SINGLE = "reproduced: the reference with this mistake gives the same numbers on every probe"


def single_mistake(trials: list[Trial], source: Source) -> Verdict | None:
    """One known mistake that gives all numbers; or two calls that differ, after which numbers mean nothing."""
    task, words = trials[0].setup.task, extras.unstable(trials[0])
    if words and task == "kv_cache":
        words = "the same steps from a new start give other numbers the second time"
        return Verdict(task, False, ["cache-shared-default"], "measured", [words], inferred(trials[0]))
    if words:
        return Verdict(task, False, ["dropout-in-eval"], "measured", [words], inferred(trials[0]))
    explained = explanations(trials)
    return None if explained is None else told(*explained, SINGLE, source)


def blame(trials: list[Trial], source: Source) -> Verdict:
    """Two mistakes that give the numbers together, else one that gives the plainest, else what a property says."""
    explained = explanations(trials[:3], pairs=True)
    if explained is not None:
        return told(*explained, "reproduced by two mistakes together", source)
    explained = explanations([trial for trial in map(basic, trials[:3]) if right(trial) is None])
    if explained is not None:
        return told(*explained, "reproduced on the plainest probes", source)
    trial = trials[0]
    ids, lines = extras.guess(trial)
    certainty = "a guess from the properties that break"
    return Verdict(trial.setup.task, False, ids, certainty, lines + explain(trial), inferred(trial))


def told(trial: Trial, found: list[list[Mistake]], certainty: str, source: Source) -> Verdict:
    """The verdict with the explanations that were found, the likeliest first."""
    ids = list(dict.fromkeys(m.id for mistakes in sort(found, source) for m in mistakes))
    lines = [*from_source(sort(found, source)), *explain(trial)]
    return Verdict(trial.setup.task, False, ids[:4], certainty, lines, inferred(trial))


def basic(trial: Trial) -> Trial:
    """The same trial with the needed probes only."""
    kept = [i for i, case in enumerate(trial.cases) if case.needed]
    return replace(trial, cases=[trial.cases[i] for i in kept], answers=[trial.answers[i] for i in kept])


def sort(found: list[list[Mistake]], source: Source) -> list[list[Mistake]]:
    """Explanations that the source speaks for come first."""
    return sorted(found, key=lambda mistakes: -sum(bool(m.hint) for m in mistakes))


def from_source(explanations: list[list[Mistake]]) -> list[str]:
    """Says so where other mistakes give the same numbers and the words of the source put this one first."""
    first, *rest = explanations
    others = dict.fromkeys(m.id for mistakes in rest for m in mistakes if m not in first)
    others = [name for name in others if name not in {m.id for m in first}]
    if not others or not any(m.hint for m in first):
        return []
    return [f"read from the source: running alone cannot tell it from {', '.join(others)}"]


def hopeless(subject: Subject, source: Source, setups: list[Setup]) -> Verdict:
    """No way of calling answers the first probe: a mistake that raises, or a call that is not understood."""
    trials = [Trial(setup, subject, source).run() for setup in setups[:FEW]]
    partly = [trial for trial in trials if ran(trial)]
    explained = explanations(partly)
    task = setups[0].task
    if explained:
        trial, found = explained
        ids = [m.id for mistakes in sort(found, source) for m in mistakes]
        error = next(a.words for a in trial.answers if isinstance(a, Failed))
        return Verdict(
            task,
            False,
            ids[:4],
            "reproduced, errors included",
            [f"it fails: {error}", *from_source(sort(found, source)), *explain(trial)],
            inferred(trial),
        )
    failed = next(a for a in trials[0].answers if isinstance(a, Failed))
    for trial in trials:
        named = extras.from_error(trial)
        if named:
            return Verdict(task, False, [named[0]], "from the error", [named[1]], inferred(trial))
    return Verdict(task, None, error=f"calling {setups[0].call} failed: {failed.words}", inferred=inferred(trials[0]))


def inferred(trial: Trial) -> dict[str, object]:
    """What was inferred or given, for the report."""
    setup = trial.setup
    found: dict[str, object] = {"task": setup.task, "call": setup.call, "lib": setup.lib}
    if setup.make:
        found["make"] = setup.make
    if setup.task == "sdpa":
        found["shape of Q"] = {2: "(T, d)", 3: "(B, T, d)", 4: "(B, H, T, d)"}[setup.rank]
    if setup.uses & {"mask", "src_mask", "tgt_mask"}:
        found["mask"] = setup.mask
        found["mask axes"] = setup.form
    if setup.causal:
        found["causal"] = True
    if setup.sizes:
        found["sizes"] = dict(setup.sizes)
    if setup.variant:
        found["variant"] = setup.variant
    return found
