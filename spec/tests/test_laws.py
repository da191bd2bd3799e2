"""Every law can object: a real step, the same step broken by hand, and what the law says about it."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import slotproof.spec
from slotproof.spec import LAWS, Copy, FullAttention, Hit, Holding, Part, SlidingWindow, Table, Transition
from slotproof.spec.laws import ALL_LAWS, BY_ID
from slotproof.spec.pool import NO_KEY
from slotproof.spec.transition import ALL_FACETS, Allocated

EngineOf = Callable[..., Any]
Break = Callable[[Transition], Transition]
FULL_4 = FullAttention(4)


# Real steps. Blocks hold 4 tokens.


def last_step(engine: Any) -> Transition:
    step: Transition = engine.steps[-1]
    return step


def admission(engine_of: EngineOf) -> Transition:
    """5 tokens take blocks 1 and 2 of 5; block 1 gets its key."""
    engine = engine_of(6, FULL_4)
    engine.admit("r", range(5))
    return last_step(engine)


def admission_beside_another(engine_of: EngineOf) -> Transition:
    """The other request holds blocks 1 (keyed) and 2; 5 tokens of its own take 3 and 4."""
    engine = engine_of(6, FULL_4)
    engine.admit("other", range(5))
    engine.admit("r", range(10, 15))
    return last_step(engine)


def adoption(engine_of: EngineOf) -> Transition:
    """Block 1 is an idle hit, and 2 is popped."""
    engine = engine_of(6, FULL_4)
    engine.admit("donor", range(5))
    engine.free("donor")
    engine.admit("r", range(5))
    return last_step(engine)


def refusal_for_an_idle_hit(engine_of: EngineOf) -> Transition:
    """2 of 5 blocks are free, one of them the hit; the other 2 blocks of 9 tokens do not fit beside it."""
    engine = engine_of(6, FULL_4)
    engine.admit("donor", range(4))
    engine.free("donor")
    engine.admit("other", range(20, 32))
    engine.request("r", range(9))
    engine.ask("r")
    return last_step(engine)


def sharing(engine_of: EngineOf) -> Transition:
    """Block 1 is a hit that another request with the same salt holds."""
    engine = engine_of(6, FULL_4)
    for name in ("other", "r"):
        engine.request(name, range(5), cache_salt="s")
        engine.ask(name)
    return last_step(engine)


def eviction_by_a_pop(engine_of: EngineOf) -> Transition:
    """Of 2 usable blocks one carries a key and is popped for other tokens."""
    engine = engine_of(3, FULL_4)
    engine.admit("donor", range(4))
    engine.free("donor")
    engine.admit("r", range(10, 16))
    return last_step(engine)


def admission_of_the_whole_prompt(engine_of: EngineOf) -> Transition:
    """4 of 20 tokens, while the whole prompt fits into the 5 blocks."""
    engine = engine_of(6, FULL_4)
    engine.admit("r", range(20), 4, full_sequence_must_fit=True)
    return last_step(engine)


def chunk_of_a_prompt_that_does_not_fit(engine_of: EngineOf) -> Transition:
    """4 of 24 tokens: 6 blocks would be needed for all, and nobody asks."""
    engine = engine_of(6, FULL_4)
    engine.admit("r", range(24), 4)
    return last_step(engine)


def admission_into_an_idle_engine(engine_of: EngineOf) -> Transition:
    """4 of 5 blocks, with a watermark of 2 that does not count."""
    engine = engine_of(6, FULL_4, watermark_blocks=2)
    engine.admit("r", range(16), has_scheduled_reqs=False)
    return last_step(engine)


def admission_that_leaves_the_reserve(engine_of: EngineOf) -> Transition:
    """2 of 5 blocks, 3 are reserved."""
    engine = engine_of(6, FULL_4)
    engine.admit("r", range(5), reserved_blocks=3)
    return last_step(engine)


def refusal(engine_of: EngineOf) -> Transition:
    """A request that needs 4 blocks while 3 are free; alone it would fit."""
    engine = engine_of(6, FULL_4)
    engine.admit("other", range(5))
    engine.admit("r", range(10, 26))
    return last_step(engine)


def refusal_with_release(engine_of: EngineOf) -> Transition:
    """A window of 5 left block 1 behind, which comes back although 3 blocks are not enough."""
    engine = engine_of(5, SlidingWindow(4, 5))
    engine.admit("r", range(24), 8)
    engine.output("r")
    engine.ask("r", 16)
    return last_step(engine)


def step_of_a_window(engine_of: EngineOf) -> Transition:
    """A window of 5 leaves block 1 behind, and block 3 is popped."""
    engine = engine_of(6, SlidingWindow(4, 5))
    engine.admit("r", range(12), 8)
    engine.output("r")
    engine.ask("r", 4)
    return last_step(engine)


def adoption_by_a_window(engine_of: EngineOf) -> Transition:
    """The hit's first block is behind the window of 5 and is not adopted."""
    engine = engine_of(6, SlidingWindow(4, 5))
    engine.admit("donor", range(9))
    engine.free("donor")
    engine.admit("r", range(9))
    return last_step(engine)


def decode(engine_of: EngineOf) -> Transition:
    """Token 6 of 8 slots: no block."""
    engine = engine_of(6, FULL_4)
    engine.admit("r", range(5))
    engine.decode("r")
    return last_step(engine)


def drafting(engine_of: EngineOf) -> Transition:
    """3 tokens and 5 drafts fill blocks 1 and 2, none of which gets a key."""
    engine = engine_of(6, FULL_4)
    engine.request("r", range(3))
    engine.ask("r", drafts=(7, 8, 9, 10, 11))
    return last_step(engine)


def commit_of_a_load(engine_of: EngineOf) -> Transition:
    """4 loaded tokens in block 1 are offered."""
    engine = engine_of(6, FULL_4)
    engine.request("r", range(5))
    engine.ask("r", 0, num_external_computed_tokens=4, delay_cache_blocks=True)
    engine.commit("r", 4)
    return last_step(engine)


def release(engine_of: EngineOf) -> Transition:
    """Blocks 1 (keyed) and 2 come back."""
    engine = engine_of(6, FULL_4)
    engine.admit("r", range(5))
    engine.free("r")
    return last_step(engine)


def release_beside_another(engine_of: EngineOf) -> Transition:
    """The other request keeps blocks 1 and 2."""
    engine = engine_of(6, FULL_4)
    engine.admit("other", range(5))
    engine.admit("r", range(10, 15))
    engine.free("r")
    return last_step(engine)


def duplication(engine_of: EngineOf) -> Transition:
    """The same 4 tokens twice: nothing is hit, because one token must be left, so block 2 gets the key of block 1."""
    engine = engine_of(6, FULL_4)
    engine.admit("other", range(4))
    engine.admit("r", range(4))
    return last_step(engine)


def release_of_a_stranger(engine_of: EngineOf) -> Transition:
    """A request that holds nothing is freed."""
    engine = engine_of(6, FULL_4)
    engine.admit("r", range(5))
    engine.free("stranger")
    return last_step(engine)


def deferral(engine_of: EngineOf) -> Transition:
    """Blocks 1 and 2 wait to come back."""
    engine = engine_of(6, FULL_4)
    engine.admit("r", range(5))
    engine.defer_free("r")
    return last_step(engine)


def deferred_return(engine_of: EngineOf) -> Transition:
    """Blocks 1 (keyed) and 2 come back later."""
    engine = engine_of(6, FULL_4)
    engine.admit("r", range(5))
    engine.defer_free("r")
    engine.return_deferred()
    return last_step(engine)


def eviction(engine_of: EngineOf) -> Transition:
    """Of the keyed blocks 1 and 2 the first loses its key."""
    engine = engine_of(6, FULL_4)
    engine.admit("r", range(9))
    engine.evict(1)
    return last_step(engine)


def lookup(engine_of: EngineOf) -> Transition:
    """8 of 9 tokens are cached in blocks 1 and 2."""
    engine = engine_of(6, FULL_4)
    engine.admit("donor", range(9))
    engine.request("r", range(9))
    engine.look_up("r")
    return last_step(engine)


def reset(engine_of: EngineOf) -> Transition:
    """Block 1 is idle and loses its key."""
    engine = engine_of(6, FULL_4)
    engine.admit("r", range(5))
    engine.free("r")
    engine.reset()
    return last_step(engine)


def admission_with_events(engine_of: EngineOf) -> Transition:
    """One key was stored, and the index offers it."""
    return replace(admission(engine_of), indexed={"k": 1}, replayed={"k": 1})


def admission_foretold(engine_of: EngineOf) -> Transition:
    """The yes was foretold."""
    return event(foretold=True)(admission(engine_of))


def batch_of_three(engine_of: EngineOf) -> Transition:
    """Row b fits into its block, row a gets block 5, row c is refused."""
    engine = engine_of(6, FullAttention(2))
    for name, prompt in (("a", (1, 1)), ("b", (1, 2, 1)), ("c", (2, 2))):
        engine.admit(name, prompt)
        engine.output(name)
    engine.batch("b", "a", "c")
    return last_step(engine)


# Steps at a finer hash granularity: parts of blocks are 2 tokens.


def engine_with_parts(engine_of: EngineOf) -> Any:
    """Blocks 1 (full) and 2 (3 tokens) offer their first two tokens for copying."""
    engine = engine_of(6, FULL_4, hash_size=2)
    engine.admit("donor", range(7))
    engine.commit("donor", 7)
    return engine


def commit_of_parts(engine_of: EngineOf) -> Transition:
    """The first two tokens of blocks 1 and 2 are computed, and offered."""
    return last_step(engine_with_parts(engine_of))


def copying(engine_of: EngineOf) -> Transition:
    """Block 1 is a hit; of block 2 two tokens are to be copied to block 3."""
    engine = engine_with_parts(engine_of)
    engine.admit("r", [*range(6), 8])
    return last_step(engine)


def end_of_a_copy(engine_of: EngineOf) -> Transition:
    """Block 2 was copied to block 3; nobody else holds them any more."""
    engine = engine_with_parts(engine_of)
    engine.admit("r", [*range(6), 8])
    engine.free("r")
    engine.free("donor")
    engine.release_copy()
    return last_step(engine)


def partial_lookup(engine_of: EngineOf) -> Transition:
    """6 of 7 tokens are cached: block 1, and two tokens of block 2."""
    engine = engine_with_parts(engine_of)
    engine.request("r", [*range(6), 8])
    engine.look_up("r")
    return last_step(engine)


def eviction_of_parts(engine_of: EngineOf) -> Transition:
    """Block 1 loses its key, and its part; block 2 keeps both."""
    engine = engine_with_parts(engine_of)
    engine.evict(1)
    return last_step(engine)


def reset_of_parts(engine_of: EngineOf) -> Transition:
    """Nothing is held and nothing offered any more."""
    engine = engine_with_parts(engine_of)
    engine.free("donor")
    engine.reset()
    return last_step(engine)


# Ways to break them.


def pool(**parts: Any) -> Break:
    """Another pool afterwards."""
    return lambda t: replace(t, after=replace(t.after, pool=replace(t.after.pool, **parts)))


def held(name: str, *tables: tuple[int, ...], cached: tuple[int, ...] | None = None) -> Break:
    """Other tables of a request afterwards, and other counters if they are given."""

    def change(t: Transition) -> Transition:
        counters = t.after.holding(name).cached if cached is None else cached
        return replace(t, after=t.after.with_holding(name, Holding(tuple(map(Table, tables)), counters)))

    return change


def event(**parts: Any) -> Break:
    """Another event."""
    return lambda t: replace(t, event=replace(t.event, **parts))


def call(**parts: Any) -> Break:
    """Another call with the same answer."""

    def change(t: Transition) -> Transition:
        assert isinstance(t.event, Allocated)
        return event(call=replace(t.event.call, **parts))(t)

    return change


def after(**parts: Any) -> Break:
    """Another snapshot afterwards."""
    return lambda t: replace(t, after=replace(t.after, **parts))


def keys(key_of: dict[int, int]) -> Break:
    """Other keys on the blocks, which the index offers."""
    return lambda t: pool(keys=tuple(key_of.get(block, NO_KEY) for block in range(6)), keyed=tuple(key_of))(t)


def nothing_happened(t: Transition) -> Transition:
    """The snapshot afterwards is the one before."""
    return replace(t, after=t.before)


def refused_without_a_trace(t: Transition) -> Transition:
    """The answer is no, and nothing happened."""
    return replace(event(answer=None)(t), after=t.before)


def salted(name: str, salt: str) -> Break:
    """Another request turns out to have this salt."""
    return lambda t: replace(t, requests={**t.requests, name: replace(t.requests[name], cache_salt=salt)})


@dataclass(frozen=True)
class Case:
    """A law, a real step it speaks about, what breaks the step, and the objection."""

    law_id: str
    step: Callable[[EngineOf], Transition]
    broken: Break
    objection: str


CASES = [
    Case("POOL-1", admission, pool(queue=(3, 4, 5, 1)), "block 1 has reference count 1 and is queued 1 times"),
    Case("POOL-1", admission, pool(queue=(3, 4, 4, 5)), "block 4 has reference count 0 and is queued 2 times"),
    Case("POOL-1", release, pool(queue=(2, 3, 4, 5)), "block 1 has reference count 0 and is queued 0 times"),
    Case("POOL-2", admission, pool(refs=(0, 1, 2, 0, 0, 0)), "block 2 has reference count 2 and is named 1 times"),
    Case(
        "POOL-2",
        deferral,
        after(waiting_frees=()),
        "block 1 has reference count 1 and is named 0 times",
    ),
    Case("POOL-3", admission, pool(queue=(0, 3, 4, 5)), "the null block is in the free queue"),
    Case("POOL-3", admission, keys({0: 7, 1: 0}), "the null block carries a key"),
    Case("POOL-3", admission, held("r", (1, 0)), "the null block was handed out: ((1, 2),)"),
    Case("POOL-4", admission, pool(queue=(3, 4)), "2 blocks are free and 2 held, of 5 usable"),
    Case("INDEX-1", admission, pool(keyed=()), "the index offers blocks [], keys are on blocks [1]"),
    Case("INDEX-1", admission, pool(keyed=(1, 3)), "the index offers blocks [1, 3], keys are on blocks [1]"),
    Case(
        "INDEX-1",
        eviction_by_a_pop,
        pool(keys=(NO_KEY, 0, NO_KEY), keyed=(1,)),
        "block 1 was handed out and is still offered for what it held before",
    ),
    Case(
        "INDEX-1",
        duplication,
        pool(keyed=(2, 1)),
        "blocks [2, 1] are offered in this order for one key; [1] had it before, in that order",
    ),
    Case("TABLE-1", admission, held("r", (1, 2, 3)), "group 0: the table has 3 entries; 2 are due for 5 slots"),
    Case("TABLE-1", admission, held("r", (1, 1)), "group 0: a block stands twice in the table (1, 1)"),
    Case("TABLE-2", admission, pool(refs=(0, 1, 2, 0, 0, 0)), "group 0: block 2 may still change and has 2 references"),
    Case(
        "TABLE-2",
        admission,
        keys({1: 0, 2: 5}),
        "group 0: block 2 may still change and carries a key",
    ),
    Case("REFUSE-1", refusal, pool(queue=(4, 3, 5)), "queue changed from (3, 4, 5) to (4, 3, 5)"),
    Case(
        "REFUSE-1",
        refusal,
        held("r", (3,)),
        "tables changed from {'other': ((1, 2),)} to {'other': ((1, 2),), 'r': ((3,),)}",
    ),
    Case(
        "REFUSE-1",
        refusal_with_release,
        nothing_happened,
        "tables are {'r': ((1, 2),)}; stage 1 alone leaves {'r': ((0, 2),)}",
    ),
    Case(
        "REFUSE-1",
        refusal_with_release,
        pool(queue=(3, 4, 2)),
        "the queue holds [2, 3, 4]; stage 1 alone leaves [1, 3, 4]",
    ),
    Case(
        "COMMIT-2",
        refusal_with_release,
        pool(queue=(1, 3, 4)),
        "the queue is (1, 3, 4) after a refusal; (3, 4, 1) is due",
    ),
    Case("REFUSE-1", refusal_with_release, pool(queue=(3, 4)), "2 blocks are free; stage 1 alone leaves 3"),
    Case(
        "REFUSE-1",
        refusal_with_release,
        held("r", (0, 2), cached=(1,)),
        "counters changed from {'r': (2,)} to {'r': (1,)}",
    ),
    Case("REFUSE-2", admission, refused_without_a_trace, "refused; step: 2 + 0 idle + 0 > 5 - 0 is False"),
    Case("REFUSE-2", admission, call(reserved_blocks=4), "accepted; step: 2 + 0 idle + 0 > 5 - 4 is True"),
    Case("REFUSE-3", refusal, event(never=True), "'never' was said to be True; alone it is False"),
    Case("REFUSE-3", refusal, call(num_new_tokens=24), "'never' was said to be False; alone it is True"),
    Case(
        "ADMIT-1",
        admission_of_the_whole_prompt,
        refused_without_a_trace,
        "refused; whole prompt: 5 + 0 idle + 0 > 5 is False; step: 1 + 0 idle + 0 > 5 - 0 is False",
    ),
    Case(
        "ADMIT-1",
        chunk_of_a_prompt_that_does_not_fit,
        call(full_sequence_must_fit=True),
        "accepted; whole prompt: 6 + 0 idle + 0 > 5 is True; step: 1 + 0 idle + 0 > 5 - 0 is False",
    ),
    Case(
        "ADMIT-2",
        admission_into_an_idle_engine,
        call(has_scheduled_reqs=True),
        "accepted a waiting request with others scheduled: True; only the watermark 2 decides",
    ),
    Case(
        "ADMIT-2",
        admission_into_an_idle_engine,
        refused_without_a_trace,
        "refused a waiting request with others scheduled: False; only the watermark 2 decides",
    ),
    Case(
        "ADMIT-3",
        admission_that_leaves_the_reserve,
        pool(queue=(3, 4)),
        "2 blocks are left free; reserved 3, watermark 0",
    ),
    Case("COUNT-1", admission, pool(queue=(3, 4)), "3 blocks left the queue; counted 2; popped 2 and adopted 0 idle"),
    Case(
        "COUNT-1",
        admission,
        event(answer=((1,),)),
        "answered ((1,),); the table grew by ((1, 2),) for new and lookahead tokens",
    ),
    Case(
        "COUNT-2",
        refusal_for_an_idle_hit,
        event(answer=((1, 5),)),
        "accepted although the 1 idle hits make it short; step: 2 + 1 idle + 0 > 2 - 0 is True",
    ),
    Case("COUNT-2", adoption, pool(queue=(3, 4, 5, 1)), "0 of the hits [1] were charged; 1 were idle"),
    Case("COUNT-3", decode, held("r", (1, 2, 3)), "group 0: one new token behind 5 covered ones took 1 blocks"),
    Case("COMMIT-1", adoption, pool(refs=(0, 0, 1, 0, 0, 0)), "hit block 1 went from 0 to 0 references"),
    Case("COMMIT-1", adoption, held("r", (2, 1)), "hit block 1 was popped by the call that adopts it"),
    Case(
        "COMMIT-1", adoption, held("r", (3, 2)), "the table starts with (3,); the hit is (1,), of which 0 are skipped"
    ),
    Case("COMMIT-2", admission, held("r", (2, 1)), "popped (2, 1) from the queue (1, 2, 3, 4, 5)"),
    Case("COMMIT-2", admission, pool(queue=(4, 3, 5)), "the queue is (4, 3, 5); popping (1, 2) leaves (3, 4, 5)"),
    Case(
        "COMMIT-2",
        admission_beside_another,
        keys({3: 1}),
        "blocks [1] lost their keys without being popped",
    ),
    Case(
        "COMMIT-3",
        admission_beside_another,
        held("other", (1,)),
        "tables of other requests changed from {'other': ((1, 2),)} to {'other': ((1,),)}",
    ),
    Case(
        "COMMIT-3",
        admission_beside_another,
        after(waiting_frees=((5,),)),
        "deferred frees changed from () to ((5,),)",
    ),
    Case(
        "COMMIT-3",
        admission_beside_another,
        pool(refs=(0, 1, 2, 1, 1, 0)),
        "block 2 is none of the call's and went to 2 references",
    ),
    Case(
        "COMMIT-3",
        admission_beside_another,
        keys({1: 5, 3: 1}),
        "block 1 is none of the call's and its key changed",
    ),
    Case(
        "COMMIT-3",
        admission_beside_another,
        held("other", (1, 2), cached=(0,)),
        "the cached counter of request other changed from (1,) to (0,)",
    ),
    Case("COMMIT-3", commit_of_a_load, pool(queue=(5, 4, 3, 2)), "the queue changed from (2, 3, 4, 5) to (5, 4, 3, 2)"),
    Case("COMMIT-3", commit_of_a_load, keys({1: 0, 3: 7}), "block 3 is none of the call's and its key changed"),
    Case(
        "COMMIT-3",
        release_beside_another,
        held("other", (2, 1)),
        "tables of other requests changed from {'other': ((1, 2),)} to {'other': ((2, 1),)}",
    ),
    Case(
        "HASH-1",
        drafting,
        keys({1: 0}),
        "group 0: block 1 holds tokens 0 to 3 of 3 finalized and has a key",
    ),
    Case(
        "HASH-2",
        admission,
        keys({}),
        "group 0: block 1 at entry 0 is full and not offered for its prefix",
    ),
    Case("HASH-2", admission, held("r", (1, 2), cached=(2,)), "group 0: the cached counter is 2; 1 is due"),
    Case(
        "HASH-2",
        commit_of_a_load,
        keys({}),
        "group 0: block 1 at entry 0 is full and not offered for its prefix",
    ),
    Case(
        "HASH-3",
        drafting,
        keys({1: 0}),
        "block 1 got a key that the call's 3 tokens without its 5 drafts do not give",
    ),
    Case(
        "SKIP-1",
        step_of_a_window,
        held("r", (1, 2, 3)),
        "group 0: the table starts with (1, 2); after stage 1 it is (0, 2)",
    ),
    Case(
        "SKIP-1",
        step_of_a_window,
        held("r", (0, 0, 3)),
        "group 0: the table starts with (0, 0); after stage 1 it is (0, 2)",
    ),
    Case(
        "SKIP-1",
        adoption_by_a_window,
        held("r", (1, 2, 3)),
        "group 0: 0 null entries on adoption; 1 are behind the window",
    ),
    Case("FREE-1", release, pool(queue=(1, 2, 3, 4, 5)), "the queue is (1, 2, 3, 4, 5); (2, 3, 4, 5, 1) is due"),
    Case("FREE-1", release, pool(refs=(0, 1, 0, 0, 0, 0)), "block 1 has 1 references; 0 are due"),
    Case("FREE-1", release, held("r", (1,)), "request r still holds ((1,),)"),
    Case(
        "FREE-1",
        release,
        keys({}),
        "keys changed from (0, -1, -1, -1, -1) to (-1, -1, -1, -1, -1)",
    ),
    Case("FREE-1", deferral, after(waiting_frees=((1, 2),)), "deferred frees are ((1, 2),); ((2, 1),) are due"),
    Case("FREE-1", deferral, pool(refs=(0, 0, 0, 0, 0, 0)), "block 1 has 0 references; 1 are due"),
    Case(
        "FREE-1", deferred_return, pool(queue=(3, 4, 5, 2, 1)), "the queue is (3, 4, 5, 2, 1); (2, 3, 4, 5, 1) is due"
    ),
    Case("FREE-2", release_of_a_stranger, pool(queue=(4, 3, 5)), "queue changed from (3, 4, 5) to (4, 3, 5)"),
    Case("FREE-2", release_of_a_stranger, held("r", (1,)), "tables changed from {'r': ((1, 2),)} to {'r': ((1,),)}"),
    Case("EVICT-1", eviction, nothing_happened, "block 1 kept its key"),
    Case("EVICT-1", eviction, keys({}), "block 2 lost its key"),
    Case("EVICT-1", eviction, pool(queue=(5, 4)), "queue changed from (4, 5) to (5, 4)"),
    Case("LOOKUP-1", lookup, event(hit=Hit(4, ((1,),))), "a hit of 1 blocks; 2 are cached in every group"),
    Case("LOOKUP-1", lookup, event(hit=Hit(8, ((2, 1),))), "group 0: hit (2, 1); the index offers (1, 2)"),
    Case(
        "LOOKUP-1", lookup, event(hit=Hit(12, ((1, 2, 3),))), "a hit of 12 tokens leaves nothing of 9 tokens to compute"
    ),
    Case("LOOKUP-1", lookup, event(hit=Hit(8, ((1,),))), "a hit of 8 tokens came with [1] blocks"),
    Case("LOOKUP-1", lookup, pool(queue=(5, 4)), "queue changed from (4, 5) to (5, 4)"),
    Case("RESET-1", reset, event(succeeded=False), "reset was refused with 5 blocks free"),
    Case("RESET-1", reset, keys({1: 0}), "blocks (1,) are still offered"),
    Case("RESET-1", reset, pool(queue=(1, 2, 3, 4, 5)), "queue changed from (2, 3, 4, 5, 1) to (1, 2, 3, 4, 5)"),
    Case("LEAK-1", release, pool(queue=(2, 3, 4, 5)), "nothing is held, but 4 of 5 usable blocks are free"),
    Case("ISO-1", sharing, salted("other", "t"), "requests r and other share blocks [1] across a salt or extra key"),
    Case(
        "EVENT-1",
        admission_with_events,
        lambda t: replace(t, replayed={}),
        "1 keys are offered by a different number of blocks than the events say, first k",
    ),
    Case("POOL-2", copying, after(copies=()), "block 2 has reference count 2 and is named 1 times"),
    Case("POOL-4", end_of_a_copy, after(copies=(Copy(2, 3),)), "5 blocks are free and 2 held, of 5 usable"),
    Case(
        "INDEX-1",
        eviction_of_parts,
        after(parts=(Part(1, 1), Part(2, 2))),
        "block 1 has lost its key, and a part of it is still offered for copying",
    ),
    Case(
        "INDEX-1",
        copying,
        after(parts=(Part(2, 2), Part(1, 1))),
        "parts are offered in the order (Part(key=2, block=2), Part(key=1, block=1)); those of before are due first, "
        "in the order (Part(key=1, block=1), Part(key=2, block=2))",
    ),
    Case(
        "TABLE-2",
        copying,
        pool(refs=(0, 2, 2, 3, 0, 0)),
        "group 0: block 3 may still change and has 3 references",
    ),
    Case("TABLE-2", copying, keys({1: 0, 2: 2, 3: 7}), "group 0: block 3 may still change and carries a key"),
    Case("COMMIT-1", copying, pool(refs=(0, 2, 1, 2, 0, 0)), "hit block 2 went from 1 to 1 references"),
    Case(
        "COMMIT-3",
        copying,
        after(copies=()),
        "copies under way are (); (Copy(source=2, destination=3),) are due",
    ),
    Case(
        "COMMIT-3",
        copying,
        after(parts=(Part(1, 1), Part(2, 2), Part(7, 4))),
        "block 4 is none of the call's and the parts it offers changed",
    ),
    Case(
        "HASH-1",
        commit_of_parts,
        keys({1: 0, 2: 7}),
        "group 0: block 2 holds tokens 4 to 7 of 7 finalized and has a key",
    ),
    Case(
        "HASH-1",
        commit_of_parts,
        event(num_computed_tokens=5),
        "block 2 offers a part for copying that is not of 5 computed tokens",
    ),
    Case(
        "HASH-2",
        commit_of_parts,
        keys({1: 0}),
        "group 0: block 2 at entry 1 does not carry the key of what it holds computed",
    ),
    Case(
        "HASH-2",
        commit_of_parts,
        after(parts=(Part(1, 1),)),
        "group 0: block 2 at entry 1 does not offer all of its computed parts",
    ),
    Case("FREE-1", end_of_a_copy, pool(queue=(4, 5, 1, 2, 3)), "the queue is (4, 5, 1, 2, 3); (3, 4, 5, 1, 2) is due"),
    Case(
        "FREE-1",
        end_of_a_copy,
        after(copies=(Copy(2, 3),)),
        "copies under way are (Copy(source=2, destination=3),); () are due",
    ),
    Case(
        "EVICT-1",
        eviction_of_parts,
        after(parts=()),
        "parts () are offered for copying; (Part(key=2, block=2),) are due",
    ),
    Case(
        "RESET-1",
        reset_of_parts,
        after(parts=(Part(1, 1),)),
        "blocks (Part(key=1, block=1),) are still offered",
    ),
    Case(
        "LOOKUP-1",
        partial_lookup,
        event(hit=Hit(4, ((1,),))),
        "a hit of 4 tokens, its end copied from (); 6 from (2,) are offered",
    ),
    Case(
        "LOOKUP-1",
        partial_lookup,
        event(hit=Hit(6, ((1,),), (1,))),
        "a hit of 6 tokens, its end copied from (1,); 6 from (2,) are offered",
    ),
    Case(
        "BATCH-1",
        batch_of_three,
        event(answers=(((),), ((5,),), ((3,),))),
        "3 rows got (((),), ((5,),), ((3,),)); call by call 2 get (((),), ((5,),))",
    ),
    Case(
        "BATCH-1",
        batch_of_three,
        held("c", (4, 5)),
        "seen from the rows call by call, tables changed from {'a': ((1, 5),), 'b': ((2, 3),), 'c': ((4,),)} to "
        "{'a': ((1, 5),), 'b': ((2, 3),), 'c': ((4, 5),)}",
    ),
    Case("MEM-2", copying, event(copies=()), "blocks none are to be copied; the hit needs 2 to 3"),
    Case("MEM-2", admission, event(copies=(Copy(3, 1),)), "blocks 3 to 1 are to be copied; the hit needs none"),
    Case("CAN-1", admission_foretold, event(foretold=False), "can_allocate said False; the call was accepted"),
]


def objections(t: Transition) -> dict[str, str]:
    """What every law that speaks about the step has against it."""
    said = {law.id: law.objection(t) for law in LAWS if law.speaks_about(t)}
    return {law_id: objection for law_id, objection in said.items() if objection is not None}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.law_id}-{case.step.__name__}")
def test_a_law_objects_to_a_broken_step_and_no_law_to_the_real_one(engine_of: EngineOf, case: Case) -> None:
    real = case.step(engine_of)
    broken = case.broken(real)
    assert objections(real) == {}
    assert BY_ID[case.law_id].speaks_about(broken)
    assert objections(broken)[case.law_id] == case.objection


def test_every_law_objects_to_something() -> None:
    assert {case.law_id for case in CASES} == {law.id for law in LAWS}


# What a law speaks about.


@pytest.mark.parametrize("answered", [True, False])
def test_a_law_about_one_answer_is_silent_about_the_other(engine_of: EngineOf, answered: bool) -> None:
    step = admission(engine_of) if answered else refusal(engine_of)
    silent = {law.id for law in LAWS if law.answered is (not answered) and law.speaks_about(step)}
    assert silent == set()


@pytest.mark.parametrize("facet", sorted(ALL_FACETS))
def test_a_law_that_needs_a_facet_is_silent_where_it_is_not_seen(engine_of: EngineOf, facet: str) -> None:
    unseen = replace(admission(engine_of), facets=ALL_FACETS - {facet})
    assert {law.id for law in LAWS if facet in law.needs and law.speaks_about(unseen)} == set()
    assert objections(unseen) == {}


def test_what_is_not_seen_has_not_changed(engine_of: EngineOf) -> None:
    broken = pool(queue=(4, 3, 5), refs=(0, 1, 1, 1, 0, 0))(refusal(engine_of))
    assert replace(broken, facets=ALL_FACETS - {"queue", "refs"}).changed() is None
    assert replace(broken, facets=frozenset({"queue"})).changed() == "queue changed from (3, 4, 5) to (4, 3, 5)"


@pytest.mark.parametrize(
    "unsaid",
    [event(foretold=None), event(never=None), lambda t: replace(t, indexed=None, replayed=None)],
    ids=["foretold", "never", "events"],
)
def test_what_was_not_said_is_not_judged(engine_of: EngineOf, unsaid: Break) -> None:
    assert objections(unsaid(admission_with_events(engine_of))) == {}
    assert objections(unsaid(refusal(engine_of))) == {}


# The ids.

SPEC = Path(slotproof.spec.__file__).parent
LAW_ID = re.compile(r"\b[A-Z]{2,}-\d+\b")
STATED_BY_LAWS_ONLY = {
    "BATCH-1",
    "EVENT-1",
    "CAN-1",
}
"""Laws about what an allocator says besides; every other one is named where the source sees to it."""


def ids_named_in(*files: Path) -> set[str]:
    return {law_id for file in files for law_id in LAW_ID.findall(file.read_text(encoding="utf-8"))}


def test_ids_are_unique_and_of_one_form() -> None:
    ids = [law.id for law in ALL_LAWS]
    assert ids == list(dict.fromkeys(ids)) == list(BY_ID)
    assert [law_id for law_id in ids if not re.fullmatch(r"[A-Z]+-\d", law_id)] == []


def test_every_id_that_the_source_names_is_a_law() -> None:
    assert ids_named_in(*SPEC.glob("*.py"), *SPEC.glob("*/*.py")) == set(BY_ID)


def test_every_law_is_named_where_the_source_sees_to_it() -> None:
    sources = [file for file in (*SPEC.glob("*.py"), *SPEC.glob("scheduler/*.py")) if file.name != "laws.py"]
    assert set(BY_ID) - ids_named_in(*sources) == STATED_BY_LAWS_ONLY


@pytest.mark.parametrize("law", ALL_LAWS, ids=lambda law: law.id)
def test_a_law_is_one_sentence_and_its_predicate_names_it(law: Any) -> None:
    assert re.fullmatch(r"['\w].*\.", law.sentence)
    assert LAW_ID.findall(law.predicate.__doc__) == [law.id]
