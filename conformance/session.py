"""One target under test: every call goes to it and to the specification, and every step is judged by the laws.

At strictness `identity` the specification's own snapshot is what the laws judge as long as the target shows exactly
that; otherwise, and whenever it does not, they judge a snapshot rebuilt from what the target shows.
"""

import pickle
from collections import Counter
from collections.abc import Hashable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import NoReturn

from slotproof.conformance.adapter import (
    NO_HIT,
    Adapter,
    AllocatesBatches,
    Commits,
    Defers,
    Evicts,
    Hit,
    LooksUp,
    Resets,
    Strictness,
)
from slotproof.conformance.deviations import Deviation
from slotproof.conformance.freezing import freeze
from slotproof.conformance.observation import Ids, Seen
from slotproof.conformance.oracle import ContentOracle
from slotproof.conformance.reach import Outcome, Reach, cell_of
from slotproof.conformance.strictness import by_event, laws_for
from slotproof.conformance.target import Target
from slotproof.conformance.violation import Violation, answer_of, changes, differences
from slotproof.conformance.world import World
from slotproof.spec.admission import Allocation, Call, admit, commit
from slotproof.spec.config import Config
from slotproof.spec.copies import release_copy
from slotproof.spec.laws import BY_ID, Law
from slotproof.spec.lookup import Hit as SpecHit
from slotproof.spec.lookup import get_computed_blocks
from slotproof.spec.predicates.batch import fold
from slotproof.spec.release import defer_free, evict_blocks, free, reset_prefix_cache, return_deferred
from slotproof.spec.request import Request
from slotproof.spec.snapshot import Copy, Snapshot
from slotproof.spec.transition import (
    Allocated,
    Batched,
    Committed,
    Copied,
    Deferred,
    Event,
    Evicted,
    Freed,
    LookedUp,
    Reset,
    Returned,
    Transition,
)

OPTIONAL_VERBS: dict[str, type] = {"batch": AllocatesBatches, "defer": Defers, "evict": Evicts, "reset": Resets}


@dataclass(slots=True)
class Tally:
    """What a run has exercised."""

    checks: Counter[str]
    reach: Reach
    deviations: Counter[str]
    rejected_drafts: int = 0
    situations: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """What happened in a scheduler, in which mode, under which policy."""

    @classmethod
    def fresh(cls) -> "Tally":
        """Nothing yet."""
        return cls(Counter(), Counter(), Counter())

    def add(self, other: "Tally") -> None:
        """Count another run's as well."""
        self.checks.update(other.checks)
        self.reach.update(other.reach)
        self.deviations.update(other.deviations)
        self.rejected_drafts += other.rejected_drafts
        self.situations.update(other.situations)


class Session:
    """The calls of one episode; `world` holds the allocator's state and the live requests, `answers` what was asked and
    answered.

    Raises Violation when a law objects, AdapterError when the adapter itself is broken.
    """

    def __init__(
        self,
        adapter: Adapter,
        config: Config,
        tally: Tally,
        *,
        law_ids: Sequence[str] = (),
        deviations: Sequence[Deviation] = (),
    ) -> None:
        self.target = Target(adapter, config)
        self.profile = adapter.profile
        self.parameters = self.target.parameters
        self.config = config
        self.world = World.fresh(config)
        self.answers: list[Event] = []
        self.tally = tally
        self.reach = tally.reach
        self._oracle = ContentOracle(config.block_size)
        self._lockstep = self.profile.strictness == Strictness.IDENTITY
        self._selected = frozenset(law_ids)
        self._deviations = deviations
        self._laws = self._laws_by_event()

    def _laws_by_event(self) -> dict[tuple[type[Event], bool | None], tuple[Law, ...]]:
        """The laws this target is held to, by the event and the answer they speak about."""
        facets = self.target.window.facets
        return by_event(law for law in laws_for(self.profile) if self._judges(law.id) and law.needs <= facets)

    def saved(self) -> bytes:
        """The target in its state, and what was learnt of it: all that changes but `world`.

        Raises:
            Exception: of whatever type pickle raises, when the adapter cannot be copied.
        """
        return freeze((self.target.saved(), self._oracle))

    def resumed(self, saved: bytes, world: World) -> "Session":
        """A session of its own that goes on where one like this was saved, with the world of that moment."""
        session = copy(self)
        target, session._oracle = pickle.loads(saved)
        session.target = self.target.resumed(target)
        session.world, session.answers = world, []
        return session

    @property
    def snapshot(self) -> Snapshot:
        """The allocator's state, as the specification has it or as it was seen."""
        return self.world.snapshot

    def offers(self, verb: str) -> bool:
        """Whether the target has the optional call behind a verb."""
        return self.target.offers(OPTIONAL_VERBS[verb])

    # The calls, in the order in which an engine makes them.

    def look_up(self, request: Request) -> Hit:
        """Find the longest cached prefix; a target that looks up inside its allocation finds nothing here."""
        if self.profile.lookup != "call" or not self.target.offers(LooksUp):
            return NO_HIT
        hit = self.target.look_up(request)
        event = LookedUp(request, SpecHit(hit.num_tokens, hit.blocks, hit.tails))
        if self._lockstep:
            due = LookedUp(request, get_computed_blocks(self.snapshot, request))
            self._judge(event, self.snapshot, request, due=answer_of(due))
        else:
            self._judge(event, None, request)
        tables = [(*blocks, *hit.tails[number : number + 1]) for number, blocks in enumerate(hit.blocks)]
        self._check_content("LOOKUP-1", tuple(tables), request, hit.num_tokens)
        return hit

    def allocate(self, call: Call, hit: Hit = NO_HIT) -> int | None:
        """Ask for slots; `hit` is what `look_up` returned and `call` names. The hit tokens adopted, None for a
        refusal.
        """
        foretold = self.target.foretell(call, hit)
        trace = self.target.trace()
        answer = self.target.allocate(call, hit)
        copies = self.target.take_copies()
        if answer is not None:
            call = self._with_hit_inside(call)
        before = self.snapshot
        copying = replace(before, copies=(*before.copies, *copies)) if copies else before
        if self._lockstep:
            outcome = admit(before, call)
            never, due = (None, outcome.new_blocks) if isinstance(outcome, Allocation) else (outcome.never, None)
            event = Allocated(call, answer, never, foretold, copies)
            transition = self._judge(event, outcome.snapshot, call.request, due=str(due), rebuilt_from=copying)
        else:
            event = Allocated(call, answer, None, foretold, copies)
            transition = self._judge(event, None, call.request, rebuilt_from=copying)
        self._record(before, call, transition)
        if answer is None:
            self._check_trace(transition, trace)
            self.target.release_hit(hit)
            return None
        self._run_step(call, copies or ())
        return call.hit.num_tokens

    def allocate_batch(self, calls: Sequence[Call]) -> int:
        """Ask for the slots of running requests together; the number of rows that were served."""
        answers = self.target.allocate_batch(calls)
        event = Batched(tuple(calls), answers)
        expected, due = None, None
        if self._lockstep:
            served, expected = fold(Transition(self.snapshot, event, self.snapshot))
            due = answer_of(Batched(event.calls, served))
        self._judge(event, expected, calls[0].request, due=due)
        for call in calls[: len(answers)]:
            self._run_step(call, ())
        return len(answers)

    def commit(self, request: Request, num_computed_tokens: int) -> None:
        """Tell the target that tokens are computed, or loaded, and finalized."""
        if self.target.offers(Commits):
            self.target.commit(request, num_computed_tokens)
            expected = commit(self.snapshot, request, num_computed_tokens) if self._lockstep else None
            self._judge(Committed(request, num_computed_tokens), expected, request)

    def free(self, request: Request) -> None:
        """End a request, or free one that holds nothing."""
        self.target.free(request)
        expected = free(self.snapshot, request.request_id) if self._lockstep else None
        self._judge(Freed(request.request_id), expected, request)

    def preempt(self, request: Request) -> None:
        """Take a running request's blocks."""
        self.target.preempt(request)
        expected = free(self.snapshot, request.request_id) if self._lockstep else None
        self._judge(Freed(request.request_id), expected, request)

    def defer_free(self, request: Request) -> None:
        """End a request whose blocks a step in flight may still write."""
        self.target.defer_free(request)
        self._judge_deferral(Deferred(request.request_id), defer_free(self.snapshot, request.request_id), request)

    def return_deferred(self) -> None:
        """The oldest deferred free may go back."""
        self.target.return_deferred()
        self._judge_deferral(Returned(), return_deferred(self.snapshot), None)

    def release_copy(self) -> None:
        """The step of the oldest copy is done."""
        self.target.release_copy()
        expected = release_copy(self.snapshot)
        left = replace(self.snapshot, copies=expected.copies)
        self._judge(Copied(), expected if self._lockstep else None, None, rebuilt_from=left)

    def evict(self, blocks: tuple[int, ...]) -> None:
        """Take keys away from outside."""
        self.target.evict(blocks)
        self._judge(Evicted(blocks), evict_blocks(self.snapshot, blocks) if self._lockstep else None, None)

    def reset_prefix_cache(self) -> None:
        """Empty the prefix cache, if nothing is held."""
        event = Reset(self.target.reset_prefix_cache())
        if self._lockstep:
            expected, succeeds = reset_prefix_cache(self.snapshot)
            self._judge(event, expected, None, due=answer_of(Reset(succeeds)))
        else:
            self._judge(event, None, None)

    def settled(self, request: Request, before: Request) -> None:
        """A step was processed, so the tokens it and later steps in flight compute are known now."""
        start = before.num_computed_tokens - before.num_in_flight_tokens
        end = min(request.num_computed_tokens, request.num_tokens)
        self._oracle.write(self._tables(request), self._oracle.contents(request), start, end)
        self.tally.rejected_drafts += before.num_computed_tokens - request.num_computed_tokens

    # What surrounds a call.

    def _with_hit_inside(self, call: Call) -> Call:
        """The call with the hit that the target found by itself; the tokens it asked for include that hit."""
        num_tokens = self.target.hit_inside(call.request)
        if not num_tokens:
            return call
        count = num_tokens // self.config.block_size
        hit = SpecHit(num_tokens, tuple(entries[:count] for entries in self.target.table(call.request)))
        return replace(call, hit=hit, num_new_tokens=call.num_new_tokens - num_tokens)

    def _record(self, before: Snapshot, call: Call, transition: Transition) -> None:
        facts = transition.allocation
        if facts.accepted:
            outcome = Outcome.ACCEPTED
        else:
            outcome = Outcome.WHOLE_PROMPT if facts.prompt_is_short(facts.watermark) else Outcome.STEP
        self.reach[cell_of(before, call, outcome)] += 1

    def _check_trace(self, transition: Transition, trace: object) -> None:
        """A refusal that may change nothing must leave the target's own snapshot as it was."""
        facts = transition.allocation
        released = any(facts.released_runs) and not facts.prompt_is_short(facts.watermark)
        if trace is None or released or not self._judges("REFUSE-1"):
            return
        now = self.target.trace()
        if now != trace:
            what = "; ".join(changes(trace, now))
            self._object("REFUSE-1", f"the target's own snapshot changed: {what}", "no change", what)

    def _run_step(self, call: Call, copies: Sequence[Copy]) -> None:
        """The forward pass of an accepted call: copy the end of a hit, read what is settled, load what is external,
        write what is new.
        """
        self._oracle.copy(copies)
        request = call.request
        tables = self._tables(request)
        if self.profile.lookup == "allocate":
            self._check_content("LOOKUP-1", tables, request, call.hit.num_tokens)
        self._check_content("TABLE-2", tables, request, request.num_computed_tokens - request.num_in_flight_tokens)
        if call.hit.tails:
            self._check_content("MEM-2", tables, request, call.hit.num_tokens)
        drafts = () if request.flights else request.draft_token_ids
        start = request.num_computed_tokens + call.hit.num_tokens
        end = start + call.num_external_computed_tokens + call.num_new_tokens
        self._oracle.write(tables, self._oracle.contents(request, drafts), start, end)

    def _check_content(self, law_id: str, tables: Ids, request: Request, num_tokens: int) -> None:
        """The first tokens of a request, read through these tables, are its own."""
        if num_tokens < 1 or not self._judges(law_id):
            return
        self.tally.checks[law_id] += 1
        misread = self._oracle.misread(tables, self._oracle.contents(request), num_tokens)
        if misread is not None:
            self._object(law_id, misread, f"the prefix of request {request.request_id}", misread)

    def _tables(self, request: Request) -> Ids:
        return tuple(table.entries for table in self.snapshot.holding(request.request_id).tables)

    # Judgement.

    def _judges(self, law_id: str) -> bool:
        return not self._selected or law_id in self._selected

    def _judge_deferral(self, event: Event, expected: Snapshot, touched: Request | None) -> None:
        """Deferred frees cannot be seen, so the suite keeps them for a target that is not in lockstep."""
        waiting = replace(self.snapshot, waiting_frees=expected.waiting_frees)
        self._judge(event, expected if self._lockstep else None, touched, rebuilt_from=waiting)

    def _judge(
        self,
        event: Event,
        expected: Snapshot | None,
        touched: Request | None,
        *,
        due: str | None = None,
        rebuilt_from: Snapshot | None = None,
    ) -> Transition:
        """Look at the target, let every law judge the step, and go on from what was seen.

        In lockstep `expected` is the specification's snapshot after the step and `due` its answer in words.
        """
        before, window = self.snapshot, self.target.window
        seen = window.look(self.world.requests.values())
        if expected is not None and due in (None, answer_of(event)) and window.agrees(seen, expected):
            after, agrees = expected, True
        else:
            after, agrees = window.rebuild(seen, rebuilt_from or before, touched), expected is None
        transition = Transition(before, event, after, self.world.requests, window.facets, *self._index_and_events(seen))
        self.world = self.world.with_snapshot(after)
        self.answers.append(event)
        objections = self._objections(transition)
        unknown = [objection for objection in objections if not self._known(*objection)]
        if unknown or not (objections or agrees or self._selected):
            self._report(unknown, transition, expected, due)
        return transition

    def _objections(self, transition: Transition) -> list[tuple[str, str]]:
        """The law and its objection, for every law that objects."""
        event, objections = transition.event, []
        answered = event.answer is not None if isinstance(event, Allocated) else None
        for law in self._laws[type(event), answered]:
            if law.said is None or law.said(transition):
                self.tally.checks[law.id] += 1
                objection = law.objection(transition)
                if objection is not None:
                    objections.append((law.id, objection))
        return objections

    def _index_and_events(self, seen: Seen) -> tuple[Counter[Hashable] | None, Counter[Hashable] | None]:
        if self.target.replayed is None or seen.keyed is None:
            return None, None
        self.target.take_events()
        return Counter(key for _, key in seen.keyed), +self.target.replayed

    def _report(
        self, objections: list[tuple[str, str]], transition: Transition, expected: Snapshot | None, due: str | None
    ) -> NoReturn:
        """A violation of the first law that objects; a difference that none objects to goes to the law nearest to
        it.
        """
        if expected is None:
            law_id, objection = objections[0]
            raise Violation(law_id, objection, BY_ID[law_id].sentence, objection, tuple(objections[1:]), transition)
        wanted, got = differences(transition.event, due, expected, transition.after)
        unnamed = (nearest_law(transition.event), f"the specification has {wanted}; the target has {got}")
        first, *others = objections or [unnamed]
        raise Violation(*first, wanted, got, tuple(others), transition)

    def _object(self, law_id: str, objection: str, expected: str, got: str) -> None:
        """Raise the violation, unless the target is known to deviate so."""
        if not self._known(law_id, objection):
            raise Violation(law_id, objection, expected, got)

    def _known(self, law_id: str, objection: str) -> bool:
        """Whether the objection is a known deviation, which then is counted."""
        for deviation in self._deviations:
            if deviation.covers(law_id, objection):
                self.tally.deviations[deviation.id] += 1
                return True
        return False


def nearest_law(event: Event) -> str:
    """The law nearest to a difference from the specification that no predicate names."""
    nearest: dict[type[Event], str] = {
        Allocated: "COMMIT-3",
        Batched: "BATCH-1",
        LookedUp: "LOOKUP-1",
        Committed: "HASH-2",
        Evicted: "EVICT-1",
        Reset: "RESET-1",
    }
    return nearest.get(type(event), "FREE-1")
