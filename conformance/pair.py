"""Two targets of one kind, side by side: every action is carried out on both, and compared is what they answer and
show.

Driver, replay and shrinker take a pair as they take one target. A difference is a `Violation` whose `law_id` is the
part in which the two differ.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from slotproof.conformance.actions import Arguments, Chooser, Verb
from slotproof.conformance.adapter import Profile, Strictness
from slotproof.conformance.deviations import Deviation
from slotproof.conformance.errors import SetupError
from slotproof.conformance.pair_facts import Fact, Recorder, allocator_facts, scheduler_facts
from slotproof.conformance.scheduler_adapter import EngineConfig
from slotproof.conformance.session import OPTIONAL_VERBS, Session, Tally
from slotproof.conformance.subject import ALLOCATOR, SCHEDULER, Subject, is_scheduler
from slotproof.conformance.target import supported_parameters
from slotproof.conformance.violation import EpisodeOver, Violation
from slotproof.spec.config import Config, FreeOrder

NO_LAW = ("none",)
"""Selects no law at all: two targets may break one in the same way."""


class Pair:
    """Two adapters, and how closely they are compared."""

    def __init__(self, old: Any, new: Any, level: Strictness | None = None) -> None:
        """Without a level they are compared as `default_level` says.

        Raises:
            SetupError: when one is a scheduler and the other an allocator.
        """
        if is_scheduler(old) != is_scheduler(new):
            raise SetupError("one of the two is a scheduler and the other an allocator; compare two of a kind")
        self.old, self.new = old, new
        self.profile = shared(old.profile, new.profile)
        self.level = default_level(old.profile, new.profile) if level is None else level
        self.subject = subject_of_pair(SCHEDULER if is_scheduler(old) else ALLOCATOR, self.level)


def default_level(old: Profile, new: Profile) -> Strictness:
    """Two versions of one target: in everything; else as closely as both follow the specification, at least in what
    they admit.
    """
    if old.name == new.name:
        return Strictness.IDENTITY
    return max(Strictness.DECISIONS, min(old.strictness, new.strictness))


def shared(old: Profile, new: Profile) -> Profile:
    """What both can be asked.

    Raises:
        SetupError: when they share no kind of group or no block size.
    """
    kinds = tuple(kind for kind in old.group_kinds if kind in new.group_kinds)
    caching = tuple(switch for switch in old.caching if switch in new.caching)
    if not kinds or not caching:
        raise SetupError(f"{old.name} and {new.name} cannot be configured alike: no group kind or no caching in common")
    return replace(
        old,
        name=f"{old.name} and {new.name}",
        group_kinds=kinds,
        caching=caching,
        free_orders=tuple(order for order in old.free_orders if order in new.free_orders) or old.free_orders,
        block_sizes=shared_sizes(old, new),
        keys_at="schedule" if old.keys_at == new.keys_at == "schedule" else "commit",
        salts=old.salts and new.salts,
        chunked_prefill=old.chunked_prefill and new.chunked_prefill,
        one_token_decode=old.one_token_decode or new.one_token_decode,
        runs_ahead=old.runs_ahead and new.runs_ahead,
        unknown_free=old.unknown_free if old.unknown_free == new.unknown_free else "undefined",
        free_counts_cached=old.free_counts_cached and new.free_counts_cached,
    )


def shared_sizes(old: Profile, new: Profile) -> tuple[int, ...] | None:
    """Block sizes that both take, None for any.

    Raises:
        SetupError: when there is none.
    """
    if old.block_sizes is None or new.block_sizes is None:
        return new.block_sizes if old.block_sizes is None else old.block_sizes
    sizes = tuple(size for size in old.block_sizes if size in new.block_sizes)
    if not sizes:
        raise SetupError(f"{old.name} and {new.name} share no block size: {old.block_sizes} and {new.block_sizes}")
    return sizes


def subject_of_pair(single: Subject, level: Strictness) -> Subject:
    """The same actions, configurations and simplifications, for both at once.

    Blocks have the same names on both sides only if identity is compared, so below that no action names any.
    """
    verbs = [verb for verb in single.verbs if level == Strictness.IDENTITY or "blocks" not in verb.needs]
    both = tuple(replace(verb, propose=partial(_propose, verb), run=partial(_run, verb)) for verb in verbs)
    return replace(single, verbs=both, begin=Sides, same=lambda first, second: first.law_id == second.law_id)


def _propose(verb: Verb[Any], sides: "Sides", chooser: Chooser) -> Arguments | None:
    return verb.propose(sides.old, chooser) if sides.offer(verb.name) else None


def _run(verb: Verb[Any], sides: "Sides", arguments: Arguments) -> None:
    sides.run(verb, arguments)


class Sides:
    """One episode on both. Raises Violation where they differ, EpisodeOver where both fail alike."""

    def __init__(
        self,
        pair: Pair,
        config: Any,
        tally: Tally,
        *,
        law_ids: Sequence[str] = (),
        deviations: Sequence[Deviation] = (),
    ) -> None:
        self._pair = pair
        self._recorders = Recorder(pair.old), Recorder(pair.new)
        self._names: tuple[dict[int, int], dict[int, int]] = ({}, {})
        self.old = _begin(pair, pair.old, self._recorders[0], config, tally)
        self.new = _begin(pair, pair.new, self._recorders[1], config, Tally.fresh())

    def offer(self, verb: str) -> bool:
        """Whether both have the optional call behind a verb."""
        return verb not in OPTIONAL_VERBS or not isinstance(self.old, Session) or self.new.offers(verb)

    def run(self, verb: Verb[Any], arguments: Arguments) -> None:
        """Carry an action out on both, and compare what came of it."""
        old_failed, new_failed = (_failure(side, verb, arguments) for side in (self.old, self.new))
        if (old_failed is None) != (new_failed is None):
            raise _difference(("exception", old_failed or "none"), ("exception", new_failed or "none"))
        for due, got in zip(self._facts(0, self.old), self._facts(1, self.new), strict=False):
            if due != got:
                raise _difference(due, got)
        if old_failed is not None:
            raise EpisodeOver

    def _facts(self, number: int, side: Any) -> list[Fact]:
        pair = self._pair
        if isinstance(side, Session):
            facets = self.old.target.window.facets & self.new.target.window.facets
            return allocator_facts(side, pair.level, pair.profile, facets, self._names[number])
        return scheduler_facts(self._recorders[number], side, pair.level)


def _begin(pair: Pair, adapter: Any, recorder: Recorder, config: Any, tally: Tally) -> Any:
    if isinstance(config, EngineConfig):
        return SCHEDULER.begin(recorder, config, tally, law_ids=NO_LAW)
    session: Session = ALLOCATOR.begin(adapter, _config_for(adapter.profile, config), tally, law_ids=NO_LAW)
    session.profile = replace(
        session.profile,
        keys_at=pair.profile.keys_at,
        salts=pair.profile.salts,
        chunked_prefill=pair.profile.chunked_prefill,
        one_token_decode=pair.profile.one_token_decode,
        runs_ahead=pair.profile.runs_ahead,
        unknown_free=pair.profile.unknown_free,
    )
    session.parameters = tuple(name for name in session.parameters if name in supported_parameters(pair.new))
    return session


def _config_for(profile: Profile, config: Config) -> Config:
    """The configuration with a free order that the target has."""
    if config.free_order.value in profile.free_orders:
        return config
    return replace(config, free_order=FreeOrder(profile.free_orders[0]))


def _failure(side: Any, verb: Verb[Any], arguments: Arguments) -> str | None:
    """What the target raised; the answers are those of this action."""
    side.answers.clear()
    try:
        verb.run(side, arguments)
    except Violation as violation:
        return violation.objection
    except EpisodeOver:
        return "the scheduler raised an exception"
    return None


def _difference(due: Fact, got: Fact) -> Violation:
    what = due[0] if due[0] == got[0] else "calls"
    old, new = (f"{fact[1]}" if due[0] == got[0] else f"{fact[0]} {fact[1]}" for fact in (due, got))
    return Violation(what, f"{what}: OLD {old}, NEW {new}", old, new)
