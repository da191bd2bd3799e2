"""What proofs rest on, as SMT-LIB text that any solver reads.

A proof rests on answers `unsat`: to whether a goal or an obligation can fail, and to whether a side of a branch that
was left out is possible. The text of one is its premises and that claim; nothing in it is special to Z3.
"""

import os
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import z3

from slotproof.proofs.engine import BRANCHES, SETTINGS, Ask
from slotproof.proofs.operations import paths_in
from slotproof.proofs.prove import Task, carry_out, stated_theorems, tasks_for, theorems_of
from slotproof.proofs.theorem import Theorem, theorem_named

CLAIMS = {Ask.GOAL: "a goal or an obligation fails", Ask.BRANCH: "a side of a branch that was left out is possible"}


@dataclass(frozen=True, slots=True)
class Obligation:
    """A claim that must have no example, and Z3's answer to that; `about` says in lines what rests on it."""

    subject: str
    number: int
    about: tuple[str, ...]
    claim: str
    terms: tuple[Any, ...]
    answer: str

    @property
    def path(self) -> Path:
        """Its file: a folder a subject."""
        return Path(re.sub(r"\W+", "-", self.subject).strip("-")) / f"{self.number:05}.smt2"

    def text(self) -> str:
        """A whole SMT-LIB script."""
        comments = (*self.about, f"claim: {self.claim}", "It holds if the answer is unsat.")
        commands = dict.fromkeys(command for term in self.terms for command in commands_for(term))
        lines = [*[f"; {comment}" for comment in comments], "(set-logic ALL)", f"(set-info :status {self.answer})"]
        return "\n".join([*lines, *commands, "(check-sat)", ""])


_printed: dict[int, tuple[Any, list[str]]] = {}


def commands_for(term: Any) -> list[str]:
    """The declarations that a premise needs, and its assertion; printed once, for most questions share most of them."""
    if term.get_id() not in _printed:
        solver = z3.Solver()
        solver.add(term)
        _printed[term.get_id()] = term, re.split(r"\n(?=\((?:declare-|assert\b))", solver.sexpr().strip())
    return _printed[term.get_id()][1]


def obligations_of(task: Task) -> Iterator[Obligation]:
    """Carry a task out, and give what its proofs rest on; to be called where nothing has been explored before."""
    names, world_number = task
    stated_theorems()
    BRANCHES.forget()
    stated = [theorem_named(name) for name in names]
    where, operation = "", stated[0].operation
    if operation is not None and world_number is not None:
        world = operation.worlds[world_number]
        where = f" in {world.words}"
        with noted() as asked:
            paths_in(operation, world)
        about = (f"every path of {operation.name}{where}", "Every theorem about that rests on it.")
        yield from numbered(f"{operation.name}{where}", about, asked)
    for one in stated:
        with noted() as asked:
            carry_out(((one.name,), world_number))
        yield from numbered(one.name + where, description(one), asked)


def description(stated: Theorem) -> tuple[str, ...]:
    """A theorem in lines."""
    return f"theorem: {stated.name}", f"law: {stated.law}", f"statement: {stated.statement}"


Asked = dict[tuple[int, ...], tuple[str, tuple[Any, ...], str]]
"""Claim, terms and last answer, by the ids of the terms, which are one term's only as long as that is kept."""


@contextmanager
def noted() -> Iterator[Asked]:
    """Note what proofs rest on meanwhile: not the sides that are possible, nor the search for examples."""
    asked: Asked = {}

    def note(ask: Ask, terms: tuple[Any, ...], answer: Any) -> None:
        if ask is Ask.GOAL or (ask is Ask.BRANCH and answer == z3.unsat):
            asked[tuple(term.get_id() for term in terms)] = CLAIMS[ask], terms, str(answer)

    SETTINGS.observers.append(note)
    try:
        yield asked
    finally:
        SETTINGS.observers.remove(note)


def numbered(subject: str, about: tuple[str, ...], asked: Asked) -> Iterator[Obligation]:
    """The obligations of one subject, in the order in which they were asked."""
    for number, (claim, terms, answer) in enumerate(asked.values(), start=1):
        yield Obligation(subject, number, about, claim, terms, answer)


def write_all(laws: Iterable[str], folder: Path) -> int:
    """Write every obligation of the theorems of some laws, or of all, to a file; how many there are."""
    tasks = tasks_for(theorems_of(laws))
    with fresh_processes() as pool:
        return sum(pool.map(partial(write, folder), tasks))


def write(folder: Path, task: Task) -> int:
    """Write what a task rests on; how many files there are."""
    obligations = list(obligations_of(task))
    for obligation in obligations:
        file = folder / obligation.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(obligation.text(), encoding="utf-8")
    return len(obligations)


def fresh_processes() -> ProcessPoolExecutor:
    """Processes that start with nothing explored or answered, so that every question is asked."""
    return ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn"))
