"""Runs the mutants of the specification against its theorems, and what these miss against a second oracle.

A mutant is installed in a forked child, so none outlives its trial, and Z3 never runs in the parent, so that what is
forked has no threads. A mutant of integers meets Z3 first, which may show that it changes nothing. Any other meets the
theorems that executed its function when nothing was changed, the cheapest first, in the worlds that are quick; then the
second oracle; then the theorems in the other worlds, unless it is listed as equivalent. Who noticed it when the record
was made is asked before all others.
"""

import json
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from itertools import chain
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple, cast

import z3

from slotproof.proofs.engine import EngineError, Int, current_run, explore, merged, term_of
from slotproof.proofs.kills import recorded_killers
from slotproof.proofs.mutants import Mutant, function_of, install, specification_mutants
from slotproof.proofs.prove import stated_theorems
from slotproof.proofs.theorem import VACUOUS, Theorem, prove

WORKERS = 2

MOST_WORLDS = 4
"""How many of an operation's worlds, the smallest first, a mutant meets; `slotproof prove` goes through all."""

TIME_LIMIT = 60
"""Seconds of processor time a theorem, or the second oracle, may take with a mutant before that counts as a kill."""

LEAST = {"a": None, "b": None, "block_size": 1, "window": 2, "max_model_len": 1, "max_in_flight": 1, "num_groups": 1}
"""Where the integers start by a parameter's name, at 0 if it is not here; None for any integer."""

LIST = Path(__file__).with_name("equivalents.json")


class NotProved(Exception):
    """A theorem fails on the specification as it is, so nothing can be said about mutants."""


class Verdict(StrEnum):
    """What became of a mutant."""

    FAILED = "failed"
    """A theorem is refuted, or an obligation is not shown."""
    UNKNOWN = "unknown"
    """Z3 no longer knows whether a theorem holds."""
    VIOLATED = "violated"
    """The second oracle objects in a law's name."""
    CRASH = "crash"
    """An exception came out of a theorem or the second oracle."""
    TIMEOUT = "timeout"
    """A theorem or the second oracle did not end."""
    PROVED_EQUIVALENT = "proved equivalent"
    LISTED_EQUIVALENT = "listed equivalent"
    SURVIVED = "survived"


BY_PROOFS = (Verdict.FAILED, Verdict.UNKNOWN)
KILLED = (*BY_PROOFS, Verdict.VIOLATED, Verdict.CRASH, Verdict.TIMEOUT)
EQUIVALENT = (Verdict.PROVED_EQUIVALENT, Verdict.LISTED_EQUIVALENT)


@dataclass(frozen=True, slots=True)
class Trial:
    """A theorem, or the second oracle, that a mutant is about to meet."""

    killer: str
    law: str


@dataclass(frozen=True, slots=True)
class Kill:
    """What noticed a mutant, and how. A crash is the weakest kind: nobody judged the mutant."""

    how: Verdict
    killer: str
    law: str
    what: str


SECOND = Trial("run-time laws", "")

Oracle = Callable[[], Iterator[Kill]]
"""Asked with a mutant installed; its kills one after the other, as long as anybody wants to know."""

Tell = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Equivalent:
    """A mutant that changes nothing anybody can see, and why; `change` guards against an id that moved on."""

    id: str
    change: str
    reason: str


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one mutant; of all its kills the first that judged it counts."""

    mutant: Mutant
    verdict: Verdict
    kills: tuple[Kill, ...] = ()

    @property
    def kill(self) -> Kill | None:
        """The kill that counts."""
        return next((kill for kill in self.kills if kill.how != Verdict.CRASH), next(iter(self.kills), None))


@dataclass(slots=True)
class Report:
    """A run; `stale` says what is wrong with the list of equivalents."""

    results: list[Result]
    stale: list[str]
    exhaustive: bool
    seconds: float = 0.0

    @property
    def survivors(self) -> list[Result]:
        """The mutants that nobody noticed or excused."""
        return [result for result in self.results if result.verdict == Verdict.SURVIVED]

    @property
    def succeeded(self) -> bool:
        """Whether every mutant is killed or rightly excused."""
        return not self.survivors and not self.stale

    def number(self, *verdicts: Verdict) -> int:
        """Mutants with these verdicts."""
        return sum(result.verdict in verdicts for result in self.results)

    def only_killer(self) -> dict[str, list[str]]:
        """By law, the mutants that nothing but this law's theorems and checks notices."""
        alone: dict[str, list[str]] = defaultdict(list)
        for result in self.results:
            laws = {kill.law for kill in result.kills if kill.how != Verdict.CRASH}
            if len(laws) == 1:
                alone[laws.pop()].append(result.mutant.id)
        return dict(sorted(alone.items()))


def run(
    second: Oracle, *, only: str = "", exhaustive: bool = False, on_done: Callable[[int], None] = lambda _: None
) -> Report:
    """Try the mutants whose id contains `only`; `exhaustive` gathers every kill instead of the first.

    Raises:
        NotProved: when a theorem fails on the specification as it is.
    """
    started = time.monotonic()
    mutants = mutants_named(only)
    listed = [entry for entry in listed_equivalents() if only in entry.id]
    larger = tuple(stated for group in theorems_by_world() if not group.quick for stated in group.theorems)
    plan = Plan(
        tuple(baseline()), second, exhaustive, frozenset(entry.id for entry in listed), larger, recorded_killers()
    )
    report = Report(tried(mutants, plan, on_done), [], exhaustive)
    excuse(report, listed)
    report.seconds = time.monotonic() - started
    return report


def mutants_named(text: str) -> list[Mutant]:
    """The mutants whose id contains a text."""
    return [mutant for mutant in specification_mutants() if text in mutant.id]


def tried(mutants: Sequence[Mutant], plan: "Plan", on_done: Callable[[int], None] = lambda _: None) -> list[Result]:
    """Each mutant's result, in the order of the mutants.

    Those listed as equivalent meet everything, so they come first, that no core waits for them at the end.
    """
    longest_first = sorted(mutants, key=lambda mutant: mutant.id not in plan.listed)
    results: dict[str, Result] = {}
    for child in in_children([partial(try_mutant, mutant, plan) for mutant in longest_first]):
        mutant = longest_first[child.number]
        results[mutant.id] = result_of(mutant, child)
        on_done(len(results))
    return [results[mutant.id] for mutant in mutants]


# The theorems as they are.


@dataclass(frozen=True, slots=True)
class Proved:
    """A theorem, how long it took, and the functions of the specification that it executed."""

    theorem: Theorem
    seconds: float
    executed: frozenset[str]

    def executes(self, mutant: Mutant) -> bool:
        """Whether the theorem can notice the mutant at all."""
        return function_name(mutant) in self.executed


def function_name(mutant: Mutant) -> str:
    """The function that a mutant changes, as digests name it."""
    return f"{mutant.module}.{mutant.function}"


def baseline() -> list[Proved]:
    """The theorems that every mutant meets, on the specification as it is, the cheapest first.

    Raises:
        NotProved: when one fails.
    """
    groups = [group.theorems for group in theorems_by_world() if group.quick]
    proved = []
    for child in in_children([partial(prove_all, group) for group in groups]):
        group = groups[child.number]
        if child.exitcode != 0:
            raise NotProved(f"the theorem {group[len(child.messages)].name!r} raises without any mutant")
        proved.append(sorted(proved_alone(group, child.messages), key=lambda one: one.seconds))
    return [one for group in sorted(filter(None, proved), key=lambda group: group[-1].seconds) for one in group]


class Group(NamedTuple):
    """Theorems that share the paths through one world, or one theorem about no operation."""

    theorems: list[Theorem]
    quick: bool


def theorems_by_world() -> list[Group]:
    """The theorems, those about an operation for each of its first worlds alone."""
    together: dict[str, Group] = {}
    for stated in stated_theorems():
        if stated.operation is None:
            together[stated.name] = Group([stated], quick=True)
            continue
        for place, world in enumerate(stated.operation.worlds[:MOST_WORLDS]):
            there = replace(stated, operation=replace(stated.operation, worlds=(world,)))
            alone = Group([], quick=place < stated.operation.num_quick)
            together.setdefault(f"{stated.operation.name}: {world.words}", alone).theorems.append(there)
    return list(together.values())


def prove_all(theorems: Iterable[Theorem], tell: Tell) -> None:
    """Tell how theorems fare, and which functions they execute; an inner function belongs to the outer one."""
    for stated in theorems:
        evidence = prove(stated)
        executed = frozenset(name.split(".<")[0] for name in evidence.digests)
        status = "says nothing" if evidence.counterexample == VACUOUS else evidence.status
        tell((status, evidence.seconds, executed))


def proved_alone(theorems: list[Theorem], told: Iterable[tuple[str, float, frozenset[str]]]) -> Iterator[Proved]:
    """What a child told of theorems; one that says nothing in this world is left out.

    Raises:
        NotProved: when one failed.
    """
    for stated, (status, seconds, executed) in zip(theorems, told, strict=True):
        if status == "says nothing":
            continue
        if status != "proved":
            raise NotProved(
                f"the theorem {stated.name!r} about {stated.law} is not proved without any mutant: {status}"
            )
        yield Proved(stated, seconds, executed)


# One mutant.


@dataclass(frozen=True, slots=True)
class Plan:
    """What the mutants meet: the theorems that each one does, the second oracle, and the theorems in larger worlds;
    `listed` are the ids of those that are known to change nothing.

    `recorded` has, by a mutant's id, who is known to notice it and so is asked first, or `crash` where nobody judged it
    and the first crash is enough. Nobody is believed: who is asked must notice the mutant again.
    """

    proved: tuple[Proved, ...]
    second: Oracle
    exhaustive: bool = False
    listed: frozenset[str] = frozenset()
    larger: tuple[Theorem, ...] = ()
    recorded: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def known_killers(self, mutant: Mutant) -> frozenset[str]:
        """Who is on record as noticing the mutant."""
        return self.recorded.get(mutant.id, frozenset())


def try_mutant(mutant: Mutant, plan: Plan, tell: Tell) -> None:
    """Tell that a mutant changes nothing, or install it and tell of the kills, up to the first that judges it unless
    all are wanted.
    """
    function = function_of(mutant)
    if is_of_integers(mutant) and agree(function.__code__, mutant.code, function.__globals__):
        tell(Verdict.PROVED_EQUIVALENT)
        return
    install(mutant)
    for kill in kills_of(mutant, plan, tell):
        tell(kill)
        enough = kill.how != Verdict.CRASH or Verdict.CRASH in plan.known_killers(mutant)
        if enough and not plan.exhaustive:
            return


def kills_of(mutant: Mutant, plan: Plan, tell: Tell) -> Iterator[Kill]:
    """The kills in order; larger worlds are for those that nothing else notices and nobody excuses."""
    noticed, known = False, plan.known_killers(mutant)
    concerned = [one.theorem for one in plan.proved if one.executes(mutant)]
    concerned.sort(key=lambda stated: stated.name not in known)
    judges = [kills_by_theorems(concerned, tell), kills_by_second(plan.second, tell)]
    for kill in chain(*(reversed(judges) if known == {SECOND.killer} else judges)):
        noticed = True
        yield kill
    if not noticed and mutant.id not in plan.listed:
        yield from kills_by_theorems(plan.larger, tell, VACUOUS)


def kills_by_theorems(theorems: Iterable[Theorem], tell: Tell, excuse: str = "") -> Iterator[Kill]:
    """The theorems that are no longer proved, unless for this reason; an operation that raises in a world is run there
    only once.
    """
    raising: set[str] = set()
    for stated in theorems:
        worlds = {world.words for world in stated.operation.worlds} if stated.operation else set()
        if worlds & raising:
            continue
        tell(Trial(stated.name, stated.law))
        allow(TIME_LIMIT)
        try:
            evidence = prove(stated)
        except Exception as error:
            raising |= worlds
            yield Kill(Verdict.CRASH, stated.name, stated.law, f"{type(error).__name__}: {error}")
            continue
        if evidence.status != "proved" and not (excuse and evidence.counterexample == excuse):
            yield Kill(Verdict(evidence.status), stated.name, stated.law, evidence.counterexample)


def allow(seconds: int) -> None:
    """End this process when it has used so much more processor time; never for 0."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


def kills_by_second(second: Oracle, tell: Tell) -> Iterator[Kill]:
    """What the second oracle finds."""
    tell(SECOND)
    allow(TIME_LIMIT)
    yield from second()
    allow(0)


def result_of(mutant: Mutant, child: "Child") -> Result:
    """What a child told, and how it ended: a mutant that took too long or took the process down is killed by that."""
    kills = [message for message in child.messages if isinstance(message, Kill)]
    if child.exitcode != 0:
        trial = next((message for message in reversed(child.messages) if isinstance(message, Trial)), SECOND)
        late = child.exitcode == -signal.SIGPROF
        what = f"took more than {TIME_LIMIT} s" if late else f"the process ended with {child.exitcode}"
        kills.append(Kill(Verdict.TIMEOUT if late else Verdict.CRASH, trial.killer, trial.law, what))
    unharmed = Verdict.PROVED_EQUIVALENT if Verdict.PROVED_EQUIVALENT in child.messages else Verdict.SURVIVED
    result = Result(mutant, unharmed, tuple(kills))
    return result if result.kill is None else Result(mutant, result.kill.how, result.kills)


# Equivalents.


def is_of_integers(mutant: Mutant) -> bool:
    """Whether the mutated function takes integers and gives an integer or a truth value."""
    return mutant.module == "arithmetic" or (mutant.module, mutant.function) == ("keys", "block_key")


def agree(one: CodeType, other: CodeType, names: dict[str, Any]) -> bool:
    """Whether Z3 shows that two functions of integers give one result wherever the specification may call them."""
    functions = [merged(FunctionType(code, names)) for code in (one, other)]
    parameters = one.co_varnames[: one.co_argcount]
    bounds = {name: LEAST.get(name, 0) for name in parameters}
    domain = tuple(z3.Int(name) >= least for name, least in bounds.items() if least is not None)

    def equal() -> None:
        results = [function(*(Int(z3.Int(name)) for name in parameters)) for function in functions]
        current_run().oblige(term_of(results[0]) == term_of(results[1]), "both give one result")

    with suppress(EngineError):
        return bool(explore(equal, domain))
    return False


def listed_equivalents() -> list[Equivalent]:
    """The mutants that are known to change nothing."""
    return [Equivalent(**entry) for entry in json.loads(LIST.read_text(encoding="utf-8"))]


def excuse(report: Report, listed: Iterable[Equivalent]) -> None:
    """Take the listed equivalents out of the survivors, and note what is listed wrongly."""
    positions = {result.mutant.id: position for position, result in enumerate(report.results)}
    for entry in listed:
        result = report.results[positions[entry.id]] if entry.id in positions else None
        if result is None:
            report.stale.append(f"{entry.id} is listed as equivalent, but there is no such mutant")
        elif result.mutant.change != entry.change:
            report.stale.append(f"{entry.id} is listed as equivalent, but its change is now {result.mutant.change}")
        elif result.kill is not None:
            report.stale.append(f"{entry.id} is listed as equivalent, but {result.kill.killer} notices it")
        elif result.verdict == Verdict.SURVIVED:
            report.results[positions[entry.id]] = Result(result.mutant, Verdict.LISTED_EQUIVALENT)


# Children.


@dataclass(slots=True)
class Child:
    """A forked process, and what it has told so far."""

    number: int
    process: Any
    messages: list[Any] = field(default_factory=list)

    @property
    def exitcode(self) -> int:
        """0, what it exited with, or the negative number of the signal that ended it."""
        self.process.join()
        return int(self.process.exitcode)


def in_children(works: Sequence[Callable[[Tell], None]], workers: int = WORKERS) -> Iterator[Child]:
    """Do each work in a child of its own, a few at a time; the children in the order in which they end."""
    waiting = list(enumerate(works))[::-1]
    running: dict[Connection, Child] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                reader, child = started(*waiting.pop())
                running[reader] = child
            for ready in cast(list[Connection], wait(list(running))):
                try:
                    running[ready].messages.append(ready.recv())
                except EOFError:
                    yield running.pop(ready)
    finally:
        for child in running.values():
            child.process.kill()


def started(number: int, work: Callable[[Tell], None]) -> tuple[Connection, Child]:
    """A child at work, and the end of the pipe on which it tells."""
    context = get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=at_work, args=(work, writer.send), daemon=True)
    process.start()
    writer.close()
    return reader, Child(number, process)


def at_work(work: Callable[[Tell], None], tell: Tell) -> None:
    """Work until the process has used up its time; an interrupt is the parent's business."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    work(tell)


# JSON.


def report_json(report: Report) -> dict[str, Any]:
    """The fields of `slotproof mutate --json`."""
    document = {
        "mutants": len(report.results),
        "killed": report.number(*KILLED),
        "equivalent": report.number(*EQUIVALENT),
        "survivors": [result.mutant.id for result in report.survivors],
        "by_proofs": report.number(*BY_PROOFS),
        "by_laws": report.number(Verdict.VIOLATED),
        "by_crash": report.number(Verdict.CRASH),
        "by_timeout": report.number(Verdict.TIMEOUT),
        "stale": report.stale,
        "mutants_detail": [detail(result) for result in report.results],
        "seconds": round(report.seconds, 3),
    }
    return document | ({"only_killer": report.only_killer()} if report.exhaustive else {})


def record_json(report: Report) -> dict[str, Any]:
    """What `kills.json` keeps of an exhaustive run."""
    killers: dict[str, list[str]] = defaultdict(list)
    for result in report.results:
        judged = {kill.killer for kill in result.kills if kill.how != Verdict.CRASH}
        for name in judged or {Verdict.CRASH.value for _ in result.kills}:
            killers[name].append(result.mutant.id)
    return {
        "mutants": len(report.results),
        "killers": dict(sorted(killers.items())),
        "met_by_all": len(report.results),
        "only": report.only_killer(),
    }


def detail(result: Result) -> dict[str, Any]:
    """One mutant."""
    mutant, kill = result.mutant, result.kill
    return {
        "id": mutant.id,
        "change": mutant.change,
        "kind": mutant.kind,
        "verdict": result.verdict.value,
        "killer": kill.killer if kill else "",
        "law": kill.law if kill else "",
        "what": kill.what if kill else "",
    }


def counts_by(report: Report, part: Callable[[Mutant], str]) -> dict[str, Counter[Verdict]]:
    """How many mutants of each part have which verdict, the parts in the order of the mutants."""
    counts: dict[str, Counter[Verdict]] = defaultdict(Counter)
    for result in report.results:
        counts[part(result.mutant)][result.verdict] += 1
    return dict(counts)
