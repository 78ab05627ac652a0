"""From a file to a verdict: try the ways of calling, accept what is right, otherwise find the explanation."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace

from clearhead.checker.candidates import Candidate, find, has_weights, tasks_of
from clearhead.checker.engine import Failed
from clearhead.checker.judge import Trial, ran_needed
from clearhead.checker.plans import plans
from clearhead.checker.setup import TASKS, Flags, Setup, Verdict
from clearhead.checker.source import Source
from clearhead.checker.subject import CannotRunError, Subject
from clearhead.checker.verdicts import SURE, blame, hopeless, leading, quality, settle

MOST_TRIALS = 14  # ways of calling that are followed to the end
SECONDS = 2.0  # after which no other reading of a signature is tried


def check_subject(subject: Subject, flags: Flags, every: bool = False) -> list[Verdict]:
    """The verdicts on a loaded file: one, or with `every` one per task found in it."""
    chosen = choose(subject, flags, every)
    sure = every or bool(flags.task or flags.call or flags.step or flags.make)
    return [
        check_tasks(subject, candidate, [task] if sure else tasks_of(subject, candidate, task), flags)
        for candidate, task in chosen
    ]


def check_tasks(subject: Subject, candidate: Candidate | None, tasks: list[str], flags: Flags) -> Verdict:
    """The verdict at the first task under which the code is right or has one known mistake.

    Where there is none: two mistakes together, or a guess, at the first task that gives answers of the right shape.
    """
    limit = time.process_time() + SECONDS
    source = Source(subject, candidate.name if candidate else None)
    looks: list[Look] = []
    # attention with weights that takes a cache may be judged without it
    cached = tasks[0] == "kv_cache" and candidate is not None and has_weights(candidate)
    for task in [t for t in tasks if not cached or t in ("kv_cache", "multi_head_attention")]:
        looks.append(look(subject, source, candidate, task, flags, limit))
        if quality(looks[-1].verdict) >= SURE:
            return looks[-1].verdict
        if time.process_time() > limit or (looks[-1].trials and not cached):
            break
    shaped = next((one for one in looks if one.trials and ran_needed(one.trials[0])), None)
    chosen = shaped or next((one for one in looks if one.trials), None)
    best = max((one.verdict for one in looks), key=quality)
    if chosen is None or (quality(best) > 0 and not chosen.trials):
        return best
    made = blame([trial.run() for trial in leading(chosen.trials)], source)
    return named(max((best, made), key=quality), chosen.task)


@dataclass
class Look:
    """What the readings of one candidate at one task gave, without a search for pairs."""

    task: str
    verdict: Verdict
    trials: list[Trial] = field(default_factory=list)


def named(verdict: Verdict, task: str) -> Verdict:
    verdict.task = verdict.inferred["task"] = task
    return verdict


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
        fitting = fitting or [replace(c, task=flags.task) for c in found]
        if not fitting:
            raise CannotRunError(f"nothing in the file looks like {flags.task}; say how to call it with --call")
        return [(single(subject, fitting, flags), flags.task)]
    if not found:
        raise CannotRunError(
            "the file defines nothing that looks like attention, a mask, positions, a shift or a cache"
        )
    if every:
        firsts = {c.task: c for c in reversed(found)}
        return [(firsts[task], task) for task in TASKS if task in firsts]
    best = single(subject, [c for c in found if c.score == found[0].score], flags)
    return [(best, best.task)]


def related(found: list[Candidate], task: str) -> list[Candidate]:
    """Candidates of a neighbouring kind: attention is attention."""
    family = ("sdpa", "multi_head_attention", "cross_attention", "causal_mask")
    return [c for c in found if c.task in family and task in family]


def called(found: list[Candidate], flags: Flags) -> Candidate | None:
    text = flags.call or f"{flags.make} ; {flags.step}"
    return next((c for c in found if re.search(rf"\b{re.escape(c.name)}\b", text)), None)


def single(subject: Subject, found: list[Candidate], flags: Flags) -> Candidate:
    """The best candidate, the only one that can be called where several are. Raises CannotRunError listing several."""
    best = [c for c in found if c.score == found[0].score]
    if len(best) == 1 or len({c.task for c in best}) > 1:
        return best[0]
    fine = [c for c in best if runs(subject, c, flags)]
    if len(fine) == 1:
        return fine[0]
    names = ", ".join(c.name for c in best)
    raise CannotRunError(
        f'there are several candidates: {names}; choose one with --call, e.g. --call "{best[0].name}(...)"'
    )


def runs(subject: Subject, candidate: Candidate, flags: Flags) -> bool:
    """Whether some call of a candidate gives an answer of the right shape, or one that a mistake explains."""
    limit = time.process_time() + SECONDS / 2
    found = look(subject, Source(subject, candidate.name), candidate, candidate.task, flags, limit)
    return quality(found.verdict) >= SURE or any(ran_needed(trial) for trial in found.trials)


def look(subject: Subject, source: Source, candidate: Candidate | None, task: str, flags: Flags, limit: float) -> Look:
    """The first reading of a signature under which the code is right or has one known mistake, else the best."""
    found, best = list[list[Trial]](), Verdict(task, None)
    try:
        for setups in plans(subject, source, candidate, task, flags):
            trials = live(subject, source, setups)
            verdict = settle(trials, source) if trials else hopeless(subject, source, setups)
            if verdict is not None and ((not best.error and best.passed is None) or quality(verdict) > quality(best)):
                best = verdict
            found += [trials] if trials else []
            if quality(best) >= SURE or time.process_time() > limit:
                break
    except (CannotRunError, ValueError) as error:
        best = best if best.error or best.passed is not None else Verdict(task, None, error=str(error))
    fine = next((trials for trials in found if ran_needed(trials[0])), found[0] if found else [])
    return Look(task, named(best, task), fine)


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
