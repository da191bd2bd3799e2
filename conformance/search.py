"""Breadth-first search of everything a model can do: how many states and steps there are, and the shortest trace to the
first that something objects to.

    outcome = search(model, workers=2)
    outcome.states, outcome.transitions, outcome.depth, outcome.exhausted
    outcome.violation      # None, or a Trace: its actions in order, and the objection to the last one

A model says where it starts, what can follow a state, which states differ by names only, and what it objects to; it is
all that `Model` asks. The search knows nothing about allocators or schedulers.

* **Renaming.** `canonical` gives equal keys to states that behave alike up to the names of blocks, requests and the
  like; one state a key is visited. It must not give equal keys to states that behave differently, and every key must be
  hashable and picklable.
* **What is judged.** Every transition, and every state once, before it counts.
* **Shortest first.** States are visited in the order of their distance, so the first objection ends a trace of the
  fewest actions. Only parents are remembered; the trace is found again by walking from the initial state along the keys
  of its states, so all its names come from one walk.
* **Processes.** A level's states are cut into batches that any process may expand, and the results are taken in the
  order of the batches. Counts, numbering and trace are the same for every number of processes.
* **Limits.** `max_states` and `seconds` stop a prefix of the same search; `exhausted` is then False.
"""

import gc
import pickle
import time
from abc import ABC, abstractmethod
from array import array
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

State = TypeVar("State")
Action = TypeVar("Action")

BATCH = 64
"""States a process expands before it reports."""

BATCHES_AHEAD = 4
"""Batches a process that are handed out before the first one's result is taken."""


RARELY = 100_000, 50, 100
"""Thresholds of the garbage collector."""


class Model(ABC, Generic[State, Action]):
    """What is searched. It is sent to other processes, so it must be picklable, and it must not change."""

    @abstractmethod
    def initial(self) -> State:
        """The state of a world in which nothing has happened."""

    @abstractmethod
    def successors(self, state: State) -> Iterable[tuple[Action, State]]:
        """Every action that can be taken, in an order that depends on the state alone, and where it leads."""

    @abstractmethod
    def canonical(self, state: State) -> Hashable:
        """The state without names that mean nothing; equal for states that can do the same."""

    def objection_to_step(self, before: State, action: Action, after: State) -> object | None:
        """What is wrong with a transition, or None; asked about every one."""
        return None

    def objection_to_state(self, state: State) -> object | None:
        """What is wrong with a state, or None; asked once a state, whichever transition reaches it first."""
        return None

    def pack(self, state: State) -> bytes:
        """The state, or one with the same key, as it waits for its turn and is sent between processes."""
        return pickle.dumps(state, pickle.HIGHEST_PROTOCOL)

    def unpack(self, packed: bytes) -> State:
        """The state that was packed."""
        state: State = pickle.loads(packed)
        return state


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search is; `waiting` states of the next level are known and not expanded yet."""

    states: int
    transitions: int
    depth: int
    waiting: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Trace(Generic[State, Action]):
    """A shortest way: the actions, the states before, between and behind them, and what is objected to at its end."""

    actions: tuple[Action, ...]
    states: tuple[State, ...]
    objection: object | None = None


@dataclass(slots=True)
class Outcome(Generic[State, Action]):
    """What a search found. `depth` is the distance of the farthest state.

    `keys` are the canonical states in the order of their discovery, `parents` the number of the state each was first
    reached from, -1 for the initial one.
    """

    states: int = 0
    transitions: int = 0
    depth: int = 0
    exhausted: bool = False
    seconds: float = 0.0
    violation: Trace[State, Action] | None = None
    keys: list[Hashable] = field(default_factory=list, repr=False)
    parents: "array[int]" = field(default_factory=lambda: array("q"), repr=False)

    def path_to(self, number: int) -> list[Hashable]:
        """The keys of the states on a shortest way from the initial state to state `number`."""
        path: list[Hashable] = []
        while number >= 0:
            path.append(self.keys[number])
            number = self.parents[number]
        return path[::-1]


class UnsoundRenaming(Exception):
    """Two states with equal keys cannot do the same, so the model's `canonical` is wrong."""


def search(
    model: Model[State, Action],
    *,
    workers: int = 1,
    max_states: int | None = None,
    seconds: float | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Outcome[State, Action]:
    """Visit every state the model can reach, nearest first, until something is objected to or a limit is met.

    Args:
        model: what to search.
        workers: processes that expand states; 1 does all in this one.
        max_states: visit no more than these; None for no limit.
        seconds: expand no further batch after so long; None for no limit.
        on_progress: told after every batch.

    Raises:
        UnsoundRenaming: when the trace to an objection cannot be walked again.
    """
    with expanding(model, workers) as expanded:
        return Search(model, max_states, seconds, on_progress).run(expanded)


@dataclass(slots=True)
class Expansion:
    """What one batch gave: transitions judged, the states found (position in the batch of the state before, key,
    packed state), and the position before and key of the first thing objected to.
    """

    transitions: int = 0
    found: list[tuple[int, Hashable, bytes]] = field(default_factory=list)
    broken: tuple[int, Hashable] | None = None


Batch = Sequence[bytes]
Expand = Callable[[Sequence[Batch]], Iterator[Expansion]]
"""Batches of packed states -> their expansions, in the same order."""


class Search(Generic[State, Action]):
    """One search under way: the states seen, and whether it is over before everything was visited."""

    def __init__(
        self,
        model: Model[State, Action],
        max_states: int | None,
        seconds: float | None,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._model = model
        self._max_states = max_states
        self._seconds = seconds
        self._on_progress = on_progress
        self._started = time.monotonic()
        self._seen: set[Hashable] = set()
        self._over = False
        self._outcome: Outcome[State, Action] = Outcome()

    def run(self, expanded: Expand) -> Outcome[State, Action]:
        """Level after level until none is left, a limit is met or something is objected to."""
        model, outcome = self._model, self._outcome
        initial = model.initial()
        self._visit(model.canonical(initial), -1)
        objection = model.objection_to_state(initial)
        if objection is not None:
            self._end_with(Trace((), (initial,), objection))
        level = [model.pack(initial)]
        while level and not self._over:
            level = self._next_level(level, expanded)
            outcome.depth += bool(level)
        outcome.exhausted = not self._over
        outcome.seconds = time.monotonic() - self._started
        return outcome

    def _next_level(self, level: list[bytes], expanded: Expand) -> list[bytes]:
        """The states one step behind a level, as far as the search came."""
        first, following = self._outcome.states - len(level), list[bytes]()
        batches = [level[start : start + BATCH] for start in range(0, len(level), BATCH)]
        for number, expansion in enumerate(expanded(batches)):
            self._take(expansion, first + number * BATCH, following)
            if not self._over:
                is_more_to_do = number + 1 < len(batches) or bool(following)
                self._over = self._is_late() and is_more_to_do
                self._report(len(following))
            if self._over:
                break
        return following

    def _take(self, expansion: Expansion, first: int, following: list[bytes]) -> None:
        """Count what a batch gave, and keep its new states; `first` is the number of the batch's first state."""
        self._outcome.transitions += expansion.transitions
        for position, key, packed in expansion.found:
            if key in self._seen:
                continue
            if self._outcome.states == self._max_states:
                self._over = True
                return
            self._visit(key, first + position)
            following.append(packed)
        if expansion.broken is not None:
            position, key = expansion.broken
            self._end_with(self._trace(first + position, key))

    def _visit(self, key: Hashable, parent: int) -> None:
        self._seen.add(key)
        self._outcome.states += 1
        self._outcome.keys.append(key)
        self._outcome.parents.append(parent)

    def _end_with(self, violation: Trace[State, Action]) -> None:
        self._outcome.violation = violation
        self._over = True

    def _is_late(self) -> bool:
        return self._seconds is not None and time.monotonic() - self._started >= self._seconds

    def _report(self, waiting: int) -> None:
        outcome = self._outcome
        spent = time.monotonic() - self._started
        self._on_progress(Progress(outcome.states, outcome.transitions, outcome.depth, waiting, spent))

    def _trace(self, parent: int, last: Hashable) -> Trace[State, Action]:
        """The trace to a state, then the step from there that is objected to."""
        model, way = self._model, walk(self._model, self._outcome.path_to(parent))
        before = way.states[-1]
        for action, after in model.successors(before):
            if model.canonical(after) == last:
                objection = objection_to(model, before, action, after)
                if objection is not None:
                    return Trace((*way.actions, action), (*way.states, after), objection)
        raise UnsoundRenaming("a state with the same key takes no step that is objected to")


def walk(model: Model[State, Action], path: Sequence[Hashable]) -> Trace[State, Action]:
    """The trace from the initial state along states with these keys, the first of which is the initial state's.

    Raises:
        UnsoundRenaming: when a state on the way has no successor of the next key.
    """
    state = model.initial()
    actions, states = list[Action](), [state]
    for key in path[1:]:
        step = next((step for step in model.successors(state) if model.canonical(step[1]) == key), None)
        if step is None:
            raise UnsoundRenaming("two states have the same key, but only one of them can take a step that was found")
        action, state = step
        actions.append(action)
        states.append(state)
    return Trace(tuple(actions), tuple(states))


# Who expands the batches.


@contextmanager
def expanding(model: Model[Any, Any], workers: int) -> Iterator[Expand]:
    """What expands batches: this process alone, or several that are started for it."""
    if workers == 1:
        reported = set[Hashable]()
        with collecting_cycles_rarely():
            yield lambda batches: (expand(model, batch, reported) for batch in batches)
        return
    with ProcessPoolExecutor(workers, initializer=_start_worker, initargs=(model,)) as pool:
        yield lambda batches: _in_order(pool, batches, workers * BATCHES_AHEAD)


@contextmanager
def collecting_cycles_rarely() -> Iterator[None]:
    """States hardly ever form cycles, and to look for some among millions of objects takes a fifth of the time."""
    before = gc.get_threshold()
    gc.set_threshold(*RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _in_order(pool: ProcessPoolExecutor, batches: Sequence[Batch], ahead: int) -> Iterator[Expansion]:
    """The results in the order of the batches, `ahead` of which are being worked on."""
    waiting: deque[Future[Expansion]] = deque()
    try:
        for batch in batches:
            waiting.append(pool.submit(_expand_in_worker, batch))
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def expand(model: Model[State, Action], batch: Batch, reported: set[Hashable]) -> Expansion:
    """Take every step from the states of a batch, up to the first that is objected to.

    `reported` are the keys that this process has found already, and judged: who takes its results knows them.
    """
    expansion = Expansion()
    for position, packed in enumerate(batch):
        before = model.unpack(packed)
        for action, after in model.successors(before):
            key = model.canonical(after)
            expansion.transitions += 1
            is_new = key not in reported
            if objection_to(model, before, action, after, is_new) is not None:
                expansion.broken = position, key
                return expansion
            if is_new:
                reported.add(key)
                expansion.found.append((position, key, model.pack(after)))
    return expansion


def objection_to(
    model: Model[State, Action], before: State, action: Action, after: State, is_new: bool = True
) -> object | None:
    """What is wrong with a transition, or with the state it leads to if that is new."""
    objection = model.objection_to_step(before, action, after)
    return model.objection_to_state(after) if objection is None and is_new else objection


_WORKER: dict[str, Any] = {}
"""The model that this process expands, and the keys it has reported; empty outside of worker processes."""


def _start_worker(model: Model[Any, Any]) -> None:
    _WORKER.update(model=model, reported=set())
    gc.set_threshold(*RARELY)


def _expand_in_worker(batch: Batch) -> Expansion:
    return expand(_WORKER["model"], batch, _WORKER["reported"])
