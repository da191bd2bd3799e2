"""The action table of a policy in a small world: everything that can happen to it, once.

Each row turns an `Action` into what happens in the specification and back; from it come the steps of the search, the
words of a trace and its JSON. `happenings` of the specification says which of them are possible in a state.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

from slotproof.conformance.actions import Action, Arguments
from slotproof.spec.scheduler.turn import (
    Aborted,
    Arrived,
    CacheReset,
    Happening,
    InputCame,
    LoadDone,
    LoadFailed,
    Processed,
    Scheduled,
)


@dataclass(frozen=True, slots=True)
class PolicyVerb:
    """One row of the table."""

    name: str
    meaning: str
    event: type[Happening]
    arguments: Callable[[Happening], Arguments]
    happening: Callable[[Arguments], Happening]


def _no_arguments(event: Happening) -> Arguments:
    return {}


def _request(event: Happening) -> Arguments:
    assert isinstance(event, Arrived | LoadDone | LoadFailed | InputCame | Aborted)
    return {"request": event.request_id}


def _accepted(event: Happening) -> Arguments:
    assert isinstance(event, Processed)
    accepted: Arguments = {"accepted": dict(event.accepted)} if event.accepted else {}
    return {**accepted, "failed": event.failed} if event.failed else accepted


def _running(event: Happening) -> Arguments:
    assert isinstance(event, CacheReset)
    return {"running": True} if event.preempt_running else {}


POLICY_VERBS: tuple[PolicyVerb, ...] = (
    PolicyVerb("arrive", "a request joins the queue", Arrived, _request, lambda a: Arrived(a["request"])),
    PolicyVerb("schedule", "the next step is decided", Scheduled, _no_arguments, lambda _: Scheduled()),
    PolicyVerb(
        "process",
        "the output of the oldest step arrives; so many drafts of each request are accepted, these loads have failed",
        Processed,
        _accepted,
        lambda a: Processed(MappingProxyType(dict(a.get("accepted", {}))), tuple(a.get("failed", ()))),
    ),
    PolicyVerb("loaded", "a connector has loaded its tokens", LoadDone, _request, lambda a: LoadDone(a["request"])),
    PolicyVerb("failed", "a connector has loaded nothing", LoadFailed, _request, lambda a: LoadFailed(a["request"])),
    PolicyVerb("input", "a session gets its next input", InputCame, _request, lambda a: InputCame(a["request"])),
    PolicyVerb("abort", "a request is given up", Aborted, _request, lambda a: Aborted(a["request"])),
    PolicyVerb(
        "reset",
        "the prefix cache is to be emptied, perhaps with what runs preempted first",
        CacheReset,
        _running,
        lambda a: CacheReset(bool(a.get("running", False))),
    ),
)

_BY_EVENT = {verb.event: verb for verb in POLICY_VERBS}
_BY_NAME = {verb.name: verb for verb in POLICY_VERBS}


def action_of(event: Happening) -> Action:
    """What happens, as an action."""
    verb = _BY_EVENT[type(event)]
    return Action(verb.name, verb.arguments(event))


def happening_of(action: Action) -> Happening:
    """The action, as what happens."""
    return _BY_NAME[action.verb].happening(action.arguments)
