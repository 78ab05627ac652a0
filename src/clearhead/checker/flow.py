"""From a file to a verdict: try the ways of calling, accept what is right, otherwise find the explanation."""

from __future__ import annotations

import re
from dataclasses import replace

from clearhead.checker import extras
from clearhead.checker.candidates import Candidate, find
from clearhead.checker.engine import Failed
from clearhead.checker.evidence import explain
from clearhead.checker.judge import Trial, explanations, ran, ran_needed, right
from clearhead.checker.mistake import Mistake
from clearhead.checker.plans import plan
from clearhead.checker.setup import TASKS, Flags, Setup, Verdict
from clearhead.checker.source import Source
from clearhead.checker.subject import CannotRunError, Subject

MOST_TRIALS = 14  # ways of calling that are followed to the end


def check_subject(subject: Subject, flags: Flags, every: bool = False) -> list[Verdict]:
    """The verdicts on a loaded file: one, or with `every` one per task found in it."""
    chosen = choose(subject, flags, every)
    return [check_candidate(subject, candidate, task, flags) for candidate, task in chosen]


def choose(subject: Subject, flags: Flags, every: bool) -> list[tuple[Candidate | None, str]]:
    """Which candidates to check. Raises CannotRunError when there is none, or several and no flag decides."""
    found = find(subject)
    if flags.call or flags.step or flags.make:
        task = flags.task or ("kv_cache" if flags.step else None)
        named = called(found, flags)
        task = task or (named.task if named else "sdpa")
        return [(named, task)]
    if flags.task:
        fitting = [c for c in found if c.task == flags.task] or related(found, flags.task)
        if not fitting:
            raise CannotRunError(f"nothing in the file looks like {flags.task}; say how to call it with --call")
        return [(single(fitting), flags.task)]
    if not found:
        raise CannotRunError(
            "the file defines nothing that looks like attention, a mask, positions, a shift or a cache"
        )
    if every:
        firsts = {c.task: c for c in reversed(found)}
        return [(firsts[task], task) for task in TASKS if task in firsts]
    best = single([c for c in found if c.score == found[0].score])
    return [(best, best.task)]


def related(found: list[Candidate], task: str) -> list[Candidate]:
    """Candidates of a neighbouring kind: attention is attention."""
    family = ("sdpa", "multi_head_attention", "cross_attention", "causal_mask")
    return [c for c in found if c.task in family and task in family]


def called(found: list[Candidate], flags: Flags) -> Candidate | None:
    text = flags.call or f"{flags.make} ; {flags.step}"
    return next((c for c in found if re.search(rf"\b{re.escape(c.name)}\b", text)), None)


def single(found: list[Candidate]) -> Candidate:
    """The only best candidate. Raises CannotRunError listing several."""
    best = [c for c in found if c.score == found[0].score]
    if len(best) > 1 and len({c.task for c in best}) == 1:
        names = ", ".join(c.name for c in best)
        raise CannotRunError(
            f'there are several candidates: {names}; choose one with --call, e.g. --call "{best[0].name}(...)"'
        )
    return best[0]


def check_candidate(subject: Subject, candidate: Candidate | None, task: str, flags: Flags) -> Verdict:
    """The verdict on one candidate at one task."""
    name = candidate.name if candidate else None
    source = Source(subject, name)
    try:
        setups = plan(subject, source, candidate, task, flags)
    except (CannotRunError, ValueError) as error:
        return Verdict(task, None, error=str(error))
    trials = live(subject, source, setups)
    verdict = settle(trials, source) if trials else hopeless(subject, source, setups)
    verdict.task = verdict.inferred["task"] = task
    return verdict


def live(subject: Subject, source: Source, setups: list[Setup]) -> list[Trial]:
    """The trials whose first probe was answered; those with the right shape, if there are any."""
    fine: list[Trial] = []
    odd: list[Trial] = []
    for setup in setups:
        if any(t.setup.lib != setup.lib for t in fine):
            break
        if any(replace(t.setup, kind=setup.kind) == setup for t in fine):
            continue
        trial = Trial(setup, subject, source).start()
        if ran_needed(trial):
            fine.append(trial)
        elif not isinstance(trial.answers[0], Failed):
            odd.append(trial)
        if len(fine) >= MOST_TRIALS:
            break
    return fine or odd[:MOST_TRIALS]


def settle(trials: list[Trial], source: Source) -> Verdict:
    """Right under some way of calling, or the explanation of the likeliest one."""
    ranks = {t.setup.rank for t in trials}
    for trial in trials:
        if trial.setup.rank == 2 and ranks - {2}:
            continue
        if trial.setup.rank == 4 and 3 in ranks and not re.search(r"(?i)head|\bh\b", source.text):
            continue  # nothing in the file speaks of heads: it is judged as (B, T, d)
        convention = right(trial.run())
        if convention is not None:
            return accept(trial, convention)
    return blame([trial.run() for trial in leading(trials)], source)


def leading(trials: list[Trial]) -> list[Trial]:
    """Two mask forms at most for each rank and convention: enough to explain by."""
    kept: list[Trial] = []
    for trial in trials:
        s = trial.setup
        like = [t for t in kept if (t.setup.rank, t.setup.mask, t.setup.causal) == (s.rank, s.mask, s.causal)]
        if len(like) < 2 and len(kept) < 8:
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


def blame(trials: list[Trial], source: Source) -> Verdict:
    """The single mistake that gives the numbers, else a pair, else what a property says."""
    unstable = "" if trials[0].setup.task == "kv_cache" else extras.unstable(trials[0])
    if unstable:
        return Verdict(trials[0].setup.task, False, ["dropout-in-eval"], "measured", [unstable], inferred(trials[0]))
    if trials[0].setup.task == "kv_cache" and extras.unstable(trials[0]):
        words = "the same steps from a new start give other numbers the second time"
        return Verdict("kv_cache", False, ["cache-shared-default"], "measured", [words], inferred(trials[0]))
    certainty = "reproduced: the reference with this mistake gives the same numbers on every probe"
    explained = explanations(trials)
    if explained is None:
        certainty = "reproduced by two mistakes together"
        explained = explanations(trials[:3], pairs=True)
    if explained is None:
        certainty = "reproduced on the plainest probes"
        explained = explanations([trial for trial in map(basic, trials[:3]) if right(trial) is None])
    if explained is None:
        trial = trials[0]
        ids, lines = extras.guess(trial)
        certainty = "a guess from the properties that break"
        return Verdict(trial.setup.task, False, ids, certainty, lines + explain(trial), inferred(trial))
    trial, found = explained
    ids: list[str] = []
    for mistakes in sort(found, source):
        ids += [m.id for m in mistakes if m.id not in ids]
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
    trials = [Trial(setup, subject, source).run() for setup in setups[:MOST_TRIALS]]
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
