"""One way of calling the code, judged: right, or which mistakes give its numbers."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clearhead.checker import bank
from clearhead.checker.engine import Case, Failed, close, fits, reproduce, reproduce_pairs, singles
from clearhead.checker.layout import give
from clearhead.checker.mistake import Mistake
from clearhead.checker.pipeline import Change
from clearhead.checker.setup import Setup
from clearhead.checker.source import Source
from clearhead.checker.subject import Subject, environment, evaluate, to_numpy
from clearhead.checker.tasks import probe_module
from clearhead.checker.tasks.attend import STYLES
from clearhead.checker.weights import loader

DATA = frozenset(("Q", "K", "V", "x", "mem"))


@dataclass
class Trial:
    """The answers of one setup to all of its probes."""

    setup: Setup
    subject: Subject
    source: Source
    cases: list[Case] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def tolerance(self) -> float:
        if self.setup.task == "positional_encoding":
            return 1e-3
        return 2e-4 if self.setup.single or self.notes.get("single") else 2e-6

    def predict(self, case: Case, change: Change, style: str = "nan") -> Any:
        return probe_module(self.setup.task).predict(self.setup, case, change, style)

    def start(self) -> Trial:
        """Answers the first probe only."""
        self.cases = probe_module(self.setup.task).probes(self.setup)
        self.answers = [self.ask(self.cases[0])]
        return self

    def run(self) -> Trial:
        """Answers all probes."""
        if not self.cases:
            self.start()
        self.answers += [self.ask(case) for case in self.cases[len(self.answers) :]]
        return self

    def environment(self, case: Case) -> dict[str, Any]:
        """The names of the call, in the learner's library and layout."""
        names = dict(case.names)
        for name in DATA & names.keys() if self.setup.layout else ():
            names[name] = give(names[name], self.setup.layout)
        env = environment(self.subject, names, self.setup.lib, self.setup.single)
        if "load" not in self.subject.defined:
            env["load"] = loader(case.names, self.notes, self.setup.single)
        return env

    def ask(self, case: Case) -> Any:
        """The output for one probe. Notes changed inputs, the type and the weights on the way."""
        task = probe_module(self.setup.task)
        if self.setup.make:
            return task.ask(self, case)
        env = self.environment(case)
        used = self.setup.uses & case.names.keys()
        before = {name: to_numpy(env[name]) for name in used if isinstance(case.names[name], np.ndarray)}
        before = {name: np.array(value) for name, value in before.items() if value is not None}
        value = evaluate(self.subject, self.setup.call, env)
        if isinstance(value, Failed):
            return value
        for name, old in before.items():
            now = to_numpy(env[name])
            if now is not None and not np.array_equal(now, old.astype(now.dtype), equal_nan=True):
                self.notes.setdefault("changed", name)
        answer = task.read_answer(self.setup, case, value, self.notes)
        if isinstance(answer, Failed):
            return answer
        out, weights = answer
        self.notes.setdefault("dtype", str(getattr(out, "dtype", "")))
        if getattr(out, "dtype", None) == np.float32 and not self.setup.single:
            self.notes["single"] = True
        self.notes.setdefault("weights", []).append((case, weights))
        return out


def grounds(trial: Trial) -> list[tuple[str, Change]]:
    """The plain reference and its allowed conventions; a cache whose code turns positions must turn them."""
    turned = trial.setup.task == "kv_cache" and trial.source.says(
        r"(?i)(?<!p)rope|rotar|rotate|cos\(|polar\(|sinus|\.cos\b"
    )
    known = bank.allowed(trial.setup)
    if trial.setup.task == "kv_cache" and not turned:
        known = [(name, change) for name, change in known if not name.startswith("rotary")]
    corner = bank.TOP_LEFT if trial.setup.task == "causal_mask" and trial.source.tells(r"top.?left") else []
    return [*([] if turned else [("", {})]), *known, *corner]


def right(trial: Trial) -> str | None:
    """The convention ("" for the plain reference) under which all answers are right, or None."""
    for name, change in grounds(trial):
        if fits(trial.answers, trial.cases, trial.predict, change, trial.tolerance):
            return name
    return None


def styles(trial: Trial) -> tuple[str, ...]:
    """The ways of hiding worth trying: several only where something is hidden."""
    uses = trial.setup.uses & {"mask", "src_mask", "tgt_mask", "lengths", "causal", "window"}
    return STYLES if uses or trial.setup.causal else STYLES[:1]


ALL_PAIRS_SECONDS = 2.0  # for all searches for pairs on one file


def explanations(trials: list[Trial], pairs: bool = False) -> tuple[Trial, list[list[Mistake]]] | None:
    """The first trial whose numbers a mistake (or pair) gives, and those: plainly, or on top of a convention."""
    deadline = time.process_time() + ALL_PAIRS_SECONDS
    for plainly in (True,) if pairs else (True, False):
        for trial in trials:
            bases = [change for _, change in grounds(trial)]
            for base in bases[:1] if plainly else bases[1:]:
                found = diagnose(trial, base, deadline if pairs else None)
                if found:
                    return trial, found
    return None


def diagnose(trial: Trial, base: Change, pairs_until: float | None = None) -> list[list[Mistake]]:
    """The mistakes (or, with a deadline, pairs) that give the learner's numbers, on top of an allowed convention."""
    known = [m for m in bank.for_task(trial.setup.task) if not m.hint or trial.source.says(m.hint)]
    if "softmax" in trial.subject.defined:  # the file's own, with an axis of its own
        known = [m for m in known if m.id != "softmax-implicit-dim"]
    if nothing_but_nan(trial):
        known = [m for m in known if m.id.startswith(("mask-", "causal-"))] or known
    cases, answers = telling_first(trial, base)
    found: list[list[Mistake]] = []
    ways = singles(known)
    for style in styles(trial)[: 2 if pairs_until else None]:

        def predict(case: Case, change: Change, style: str = style) -> Any:
            return trial.predict(case, {**base, **change}, style)

        if pairs_until:
            made = reproduce_pairs(known, answers, cases, predict, trial.tolerance, pairs_until)
        else:
            made, unsettled = reproduce(ways, answers, cases, predict, trial.tolerance)
            ways = unsettled if style == "nan" else ways
        found += [mistakes for mistakes in made if mistakes not in found]
    return found


def nothing_but_nan(trial: Trial) -> bool:
    """Whether every answer under a mask is NaN throughout, which many changes can cause and masks mostly do."""
    arrays = [a for a in trial.answers if isinstance(a, np.ndarray) and a.dtype.kind == "f"]
    return (
        bool(trial.setup.uses & {"mask", "src_mask", "tgt_mask"})
        and bool(arrays)
        and all(np.isnan(a).all() for a in arrays)
    )


def telling_first(trial: Trial, base: Change) -> tuple[list[Case], list[Any]]:
    """Probes and answers, those first whose answer is not the reference's: they sort out most mistakes at once."""

    def shows(i: int) -> bool:
        return not close(trial.answers[i], trial.predict(trial.cases[i], base), trial.tolerance)

    order = sorted(
        range(len(trial.cases)),
        key=lambda i: (isinstance(trial.answers[i], Failed), not shows(i), trial.cases[i].name == "long"),
    )
    return [trial.cases[i] for i in order], [trial.answers[i] for i in order]


def ran(trial: Trial) -> bool:
    return any(not isinstance(answer, Failed) for answer in trial.answers)


def ran_needed(trial: Trial) -> bool:
    """Whether the first probe, which every right function answers, was answered in the right shape."""
    got = trial.answers[0]
    want = trial.predict(trial.cases[0], {})
    if isinstance(got, Failed) or isinstance(want, Failed):
        return False
    return [np.shape(g) for g in as_parts(got)] == [np.shape(w) for w in as_parts(want)]


def as_parts(answer: Any) -> tuple[Any, ...]:
    return answer if isinstance(answer, tuple) else (answer,)
