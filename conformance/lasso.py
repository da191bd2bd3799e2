"""Lassos: a way to a cycle that a fair engine may go round for ever while some request waits.

A world is finite, so a run that goes on for ever comes back to a state it has seen. On such a cycle nobody gains a
token (tokens are never lost), so whoever is there all the time never ends. A cycle is fair if the engine schedules on
it, and if every step and every load that is under way all the time ends on it.
"""

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from slotproof.spec.predicates.progress import interferes, precedes
from slotproof.spec.scheduler.state import SchedulerState
from slotproof.spec.scheduler.turn import Arrived, Happening, LoadDone, LoadFailed, Processed, Scheduled

Node = Hashable
Duty = str
"""What a fair cycle owes: `schedule`, `process`, or the load of a request by its name behind `load `."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A turn from one state to another, and what it does for fairness."""

    event: Happening
    to: Node


@dataclass(slots=True)
class Graph:
    """Every state of a search by its key, nearest first, and the turns between them."""

    states: dict[Node, SchedulerState] = field(default_factory=dict)
    edges: dict[Node, list[Edge]] = field(default_factory=dict)

    def add(self, before: Node, state: SchedulerState, event: Happening, after: Node) -> None:
        """One turn."""
        self.states.setdefault(before, state)
        self.edges.setdefault(before, []).append(Edge(event, after))


@dataclass(frozen=True, slots=True)
class Lasso:
    """The keys of a cycle's states, the first one again at the end."""

    cycle: tuple[Node, ...]


def find_lasso(graph: Graph, names: list[str]) -> Lasso | None:
    """The fair cycle, nearest to the start and then shortest, on which one of these requests waits for ever."""
    distance = {node: number for number, node in enumerate(graph.states)}
    found: list[tuple[int, int, tuple[Node, ...]]] = []
    for name in names:
        around = without(graph, name)
        for component in components(around):
            if not is_fair_component(graph, around, component):
                continue
            for node in sorted(component, key=distance.__getitem__)[:MOST_ENTRIES]:
                cycle = fair_cycle(graph, around, component, node)
                found.append((distance[node], len(cycle), cycle))
    return Lasso(min(found, key=lambda way: way[:2])[2]) if found else None


MOST_ENTRIES = 20
"""States of a component, nearest first, from which a cycle is tried."""

Ways = dict[Node, list[Edge]]


def without(graph: Graph, name: str) -> Ways:
    """The turns between states in which the request is there, but for aborts, resets and arrivals that go before
    it.
    """

    def may_recur(state: SchedulerState, edge: Edge) -> bool:
        if interferes(edge.event):
            return False
        if isinstance(edge.event, Arrived) and precedes(state, edge.event.request_id, name):
            return False
        return edge.to in graph.states and name in graph.states[edge.to].requests

    return {
        node: [edge for edge in graph.edges[node] if may_recur(state, edge)]
        for node, state in graph.states.items()
        if name in state.requests
    }


def duties_met(state: SchedulerState, duties: frozenset[Duty]) -> frozenset[Duty]:
    """Of these duties, those that being in this state meets: no step, or not this load, is under way."""
    met = {duty for duty in duties if duty.startswith("load ") and duty.removeprefix("load ") not in state.loading}
    return frozenset(met | ({"process"} & duties if not state.steps else set()))


def duty_of(event: Happening) -> Duty:
    """The duty that a turn meets, if it is one."""
    if isinstance(event, LoadDone | LoadFailed):
        return f"load {event.request_id}"
    return {Scheduled: "schedule", Processed: "process"}.get(type(event), "")


def duties_in(graph: Graph, component: set[Node]) -> frozenset[Duty]:
    """Everything a cycle in a component owes."""
    loads = {f"load {name}" for node in component for name in graph.states[node].loading}
    return frozenset({"schedule", "process"} | loads)


def is_fair_component(graph: Graph, around: Ways, component: set[Node]) -> bool:
    """Whether a cycle through all of a component's turns is fair."""
    duties = duties_in(graph, component)
    met = {duty_of(edge.event) for node in component for edge in around[node] if edge.to in component}
    for node in component:
        met |= duties_met(graph.states[node], duties)
    return duties <= met


def fair_cycle(graph: Graph, around: Ways, component: set[Node], begin: Node) -> tuple[Node, ...]:
    """The shortest fair cycle from a node, breadth first over (node, duties met so far)."""
    duties = duties_in(graph, component)
    first = (begin, duties_met(graph.states[begin], duties))
    came_from: dict[tuple[Node, frozenset[Duty]], tuple[Node, frozenset[Duty]] | None] = {first: None}
    todo = deque([first])
    while True:
        here = todo.popleft()
        for edge in around[here[0]]:
            if edge.to not in component:
                continue
            met = here[1] | ({duty_of(edge.event)} & duties) | duties_met(graph.states[edge.to], duties)
            there = edge.to, met
            if edge.to == begin and met == duties:
                return (*_way_to(here, came_from), begin)
            if there not in came_from:
                came_from[there] = here
                todo.append(there)


def _way_to(
    here: tuple[Node, frozenset[Duty]],
    came_from: dict[tuple[Node, frozenset[Duty]], tuple[Node, frozenset[Duty]] | None],
) -> list[Node]:
    way: list[Node] = []
    step: tuple[Node, frozenset[Duty]] | None = here
    while step is not None:
        way.append(step[0])
        step = came_from[step]
    return way[::-1]


def components(around: Ways) -> Iterator[set[Node]]:
    """The strongly connected components that have a turn inside (Tarjan's algorithm, without recursion)."""
    index: dict[Node, int] = {}
    low: dict[Node, int] = {}
    stack: list[Node] = []
    on_stack: set[Node] = set()
    for root in around:
        if root in index:
            continue
        work: list[tuple[Node, Iterator[Edge]]] = [(root, iter(around[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, edges = work[-1]
            following = next((edge.to for edge in edges if edge.to not in index or edge.to in on_stack), None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = _pop_component(node, stack, on_stack)
                    if len(component) > 1 or any(edge.to == node for edge in around[node]):
                        yield component
            elif following in index:
                low[node] = min(low[node], index[following])
            else:
                index[following] = low[following] = len(index)
                stack.append(following)
                on_stack.add(following)
                work.append((following, iter(around[following])))


def _pop_component(root: Node, stack: list[Node], on_stack: set[Node]) -> set[Node]:
    component: set[Node] = set()
    while True:
        node = stack.pop()
        on_stack.discard(node)
        component.add(node)
        if node == root:
            return component
