"""Second opinions on what Z3 answered: from another solver, and from Z3 itself under another seed."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

import cvc5

from slotproof.proofs.engine import BRANCHES, SETTINGS
from slotproof.proofs.prove import Task, carry_out, stated_theorems
from slotproof.proofs.smtlib import fresh_processes, obligations_of

LIMIT_MS = 5_000
"""So long cvc5 may take for one obligation."""


class Verdict(StrEnum):
    """What the second opinion says of the first."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Opinions:
    """How many obligations came to which verdict, and which are not agreed on."""

    counts: Counter[Verdict] = field(default_factory=Counter)
    disagreed: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def add(self, other: "Opinions") -> None:
        """Take in those on another task."""
        self.counts += other.counts
        self.disagreed += other.disagreed
        self.unknown += other.unknown


def opinions_on(tasks: Iterable[Task]) -> Opinions:
    """Ask cvc5 about all that the proofs of these tasks rest on."""
    opinions = Opinions()
    with fresh_processes() as pool:
        for found in pool.map(opinions_on_one, tasks):
            opinions.add(found)
    return opinions


def opinions_on_one(task: Task) -> Opinions:
    """Carry a task out, and ask cvc5 about all that its proofs rest on; in a fresh process, so that all is asked."""
    opinions = Opinions()
    for obligation in obligations_of(task):
        verdict = verdict_on(obligation.answer, answer_of_cvc5(obligation.text()))
        opinions.counts[verdict] += 1
        if verdict is Verdict.DISAGREES:
            opinions.disagreed.append(str(obligation.path))
        elif verdict is Verdict.UNKNOWN:
            opinions.unknown.append(str(obligation.path))
    return opinions


def verdict_on(first: str, second: str) -> Verdict:
    """Compare two answers; only sat and unsat contradict each other."""
    if "unknown" in (first, second):
        return Verdict.UNKNOWN
    return Verdict.AGREES if first == second else Verdict.DISAGREES


def answer_of_cvc5(text: str, limit_ms: int = LIMIT_MS) -> str:
    """What cvc5 answers to an SMT-LIB script: sat, unsat, or unknown when its time is up.

    Raises:
        RuntimeError: for a script with more than SMT-LIB has.
    """
    terms = cvc5.TermManager()
    solver, symbols = cvc5.Solver(terms), cvc5.SymbolManager(terms)
    solver.setOption("tlimit-per", str(limit_ms))
    parser = cvc5.InputParser(solver, symbols)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "obligation")
    said = ""
    while not (command := parser.nextCommand()).isNull():
        # The expected answer is kept from cvc5, which would otherwise give an error instead of another one.
        if command.getCommandName() != "set-info":
            said = command.invoke(solver, symbols)
    return str(said).split()[0]


def unproved_under(seed: int, tasks: Iterable[Task]) -> list[str]:
    """The theorems that are not proved when Z3 starts from this seed; in a fresh process, so that all is asked."""
    stated_theorems()
    SETTINGS.seed = seed
    BRANCHES.forget()
    return [one.theorem.name for task in tasks for one in carry_out(task) if one.status != "proved"]
