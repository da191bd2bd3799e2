"""The adapter on real vLLM: run in an environment that has it, or point SLOTPROOF_VLLM_PYTHON to a Python that has."""

import importlib.util
import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from slotproof.conformance.adapter import (
    OPTIONAL_CALLS,
    AllocatesBatches,
    CopiesBlocks,
    Foretells,
    ReleasesHits,
    ReportsHit,
    Strictness,
)
from slotproof.conformance.errors import SetupError
from slotproof.conformance.targets import vllm as target
from slotproof.conformance.targets.registry import load_target
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention, SlidingWindow

FULL, WINDOW = FullAttention(16), SlidingWindow(16, 32)


@dataclass(frozen=True)
class View:
    request_id: str
    token_ids: tuple[int, ...]
    num_prompt_tokens: int
    num_computed_tokens: int = 0
    num_in_flight_tokens: int = 0
    status: str = "waiting"
    draft_token_ids: tuple[int, ...] = ()
    cache_salt: str | None = None
    extra_keys: tuple[str, ...] = ()


def prompt(name: str, tokens: range, **changes: Any) -> View:
    return View(name, tuple(tokens), len(tokens), **changes)


def running(view: View, num_computed_tokens: int, *sampled: int) -> View:
    tokens = (*view.token_ids, *sampled)
    return replace(view, token_ids=tokens, num_computed_tokens=num_computed_tokens, status="running")


def config(num_blocks: int, *groups: FullAttention | SlidingWindow, **changes: Any) -> Config:
    return Config(num_blocks, groups, max_model_len=2048, max_in_flight_tokens=2048, **changes)


@pytest.fixture(scope="module")
def started() -> Iterator[Any]:
    """Importing vLLM takes seconds, so one adapter serves all tests."""
    python = os.environ.get("SLOTPROOF_VLLM_PYTHON")
    if python:
        adapter: Any = load_target(f"vllm@{python}")
        yield adapter
        adapter.close()
    elif importlib.util.find_spec("vllm"):
        yield load_target("vllm")
    else:
        pytest.skip("vLLM is not here: run .ci/vllm-env VERSION DIR and set SLOTPROOF_VLLM_PYTHON=DIR/python-VERSION")


@pytest.fixture
def vllm(started: Any) -> Any:
    started.reset(config(100, FULL))
    return started


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed here")
def test_the_sentence_without_vllm() -> None:
    with pytest.raises(SetupError) as caught:
        load_target("vllm")
    assert str(caught.value) == (
        f"The vllm target needs vLLM, which {sys.executable} cannot import; create an environment with "
        "`.ci/vllm-env VERSION DIR` and name the target `vllm@DIR/python-VERSION`."
    )


def test_the_sentence_for_an_older_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    class OldManager:
        def allocate_slots(self, request: object, num_new_tokens: int) -> None: ...

    monkeypatch.setattr(target, "_names", lambda: SimpleNamespace(version="0.23.0", KVCacheManager=OldManager))
    with pytest.raises(
        SetupError, match=r"^vLLM 0\.23\.0 is older than 0\.24\.0, where the call is another one; create"
    ):
        load_target("vllm")


@pytest.mark.thirdparty
def test_it_offers_every_call_that_vllm_has(vllm: Any) -> None:
    """It copies blocks too, but with Mamba groups only, which are not modelled."""
    absent = {kind for kind in OPTIONAL_CALLS if not isinstance(vllm, kind)}
    assert absent == {AllocatesBatches, CopiesBlocks, Foretells, ReleasesHits, ReportsHit}
    assert vllm.profile.strictness is Strictness.IDENTITY
    assert vllm.profile.version[0].isdigit()


@pytest.mark.thirdparty
def test_the_seed_trace(vllm: Any) -> None:
    """100 blocks, watermark 5; an 8-block hit of which 2 are held, and 40 free blocks."""
    vllm.reset(config(100, FULL, watermark_blocks=5))
    prefix = range(128)
    earlier = prompt("earlier", range(129))
    assert vllm.allocate_slots(earlier, 129) is not None
    vllm.free(earlier)
    sharer = prompt("sharer", range(33))
    assert vllm.allocate_slots(sharer, 1, hit=vllm.get_computed_blocks(sharer)) is not None
    assert vllm.allocate_slots(prompt("filler", range(10_000, 10_896)), 896) is not None
    assert vllm.num_free_blocks() == 40

    request = prompt("main", range(300))
    hit = vllm.get_computed_blocks(request)
    assert (hit.num_tokens, hit.blocks) == (len(prefix), (tuple(range(1, 9)),))
    assert [vllm.ref_count(block) for block in hit.blocks[0]] == [1, 1, 0, 0, 0, 0, 0, 0]
    popped = vllm.allocate_slots(request, 100, hit=hit, full_sequence_must_fit=True)
    rows = [(popped, vllm.num_free_blocks(), vllm.cached_counts(request))]
    request = running(request, 228)
    rows.append((vllm.allocate_slots(request, 72), vllm.num_free_blocks(), vllm.cached_counts(request)))
    for computed in range(300, 306):
        request = running(request, computed, 7)
        rows.append((vllm.allocate_slots(request, 1), vllm.num_free_blocks(), vllm.cached_counts(request)))
    request = running(request, 306, 7)
    popped = vllm.allocate_slots(request, 1, num_lookahead_tokens=16)
    rows.append((popped, vllm.num_free_blocks(), vllm.cached_counts(request)))
    nothing = ((),)
    assert rows == [
        (((66, 67, 68, 69, 70, 71, 72),), 27, [14]),
        (((73, 74, 75, 76),), 23, [18]),
        (nothing, 23, [18]),
        (nothing, 23, [18]),
        (nothing, 23, [18]),
        (nothing, 23, [19]),
        (((77,),), 22, [19]),
        (nothing, 22, [19]),
        (((78,),), 21, [19]),
    ]
    assert vllm.block_table(request) == ((*range(1, 9), *range(66, 79)),)

    before = vllm.snapshot()
    second = prompt("second", range(20_000, 20_600))
    assert vllm.allocate_slots(second, 600, full_sequence_must_fit=True) is None
    assert vllm.snapshot() == before
    assert vllm.block_table(second) == ((),)


@pytest.mark.thirdparty
@pytest.mark.parametrize(("blocks_left", "admitted"), [(3, False), (4, True)])
def test_the_watermark_is_exactly_what_the_config_says(vllm: Any, blocks_left: int, admitted: bool) -> None:
    """4 / 49 * 49 is a little less than 4 in floating point."""
    vllm.reset(config(49, FULL, watermark_blocks=4))
    blocks = 48 - blocks_left
    popped = vllm.allocate_slots(prompt("a", range(16 * blocks)), 16 * blocks, full_sequence_must_fit=True)
    assert (popped is not None) == admitted


@pytest.mark.thirdparty
def test_a_window_releases_before_it_refuses(vllm: Any) -> None:
    vllm.reset(config(7, WINDOW))
    request = prompt("a", range(96))
    vllm.allocate_slots(request, 96)
    assert vllm.num_free_blocks() == 0
    before = vllm.snapshot()
    assert vllm.allocate_slots(running(request, 96, *range(80)), 80) is None
    assert vllm.num_free_blocks() == 4
    assert vllm.block_table(request) == ((0, 0, 0, 0, 5, 6),)
    assert vllm.snapshot() != before


@pytest.mark.thirdparty
def test_a_window_keeps_what_a_step_in_flight_may_read(vllm: Any) -> None:
    vllm.reset(config(7, WINDOW))
    request = prompt("a", range(96))
    vllm.allocate_slots(request, 96)
    in_flight = replace(running(request, 96, *range(80)), num_in_flight_tokens=96)
    assert vllm.allocate_slots(in_flight, 80) is None
    released_early = any("Before 0.26" in note for note in vllm.profile.notes)
    assert vllm.num_free_blocks() == (4 if released_early else 0)


@pytest.mark.thirdparty
@pytest.mark.parametrize(
    ("deferred", "freed"),
    [(False, [8, 7, 4, 3, 9, 2, 1, 6, 5]), (True, [8, 7, 4, 3, 9, 6, 5, 2, 1])],
)
def test_the_order_of_a_free_over_two_groups(vllm: Any, deferred: bool, freed: list[int]) -> None:
    vllm.reset(config(10, FULL, SlidingWindow(16, 64)))
    request = prompt("a", range(48))
    assert vllm.allocate_slots(request, 33, num_lookahead_tokens=31) == ((1, 2, 3, 4), (5, 6, 7, 8))
    if deferred:
        vllm.defer_free(request)
        assert vllm.num_free_blocks() == 1
        vllm.return_deferred()
    else:
        vllm.free(request)
    assert vllm.free_queue() == freed


@pytest.mark.thirdparty
def test_a_hit_of_ids_alone_is_as_good_as_the_handle(vllm: Any) -> None:
    snapshots = []
    for with_handle in (True, False):
        vllm.reset(config(100, FULL))
        first, second = prompt("a", range(40)), prompt("b", range(50))
        vllm.allocate_slots(first, 40)
        hit = vllm.get_computed_blocks(second)
        assert hit.num_tokens == 32
        vllm.allocate_slots(second, 18, hit=hit if with_handle else replace(hit, handle=None))
        snapshots.append((vllm.free_queue(), vllm.block_table(second), vllm.cached_counts(second)))
    assert snapshots[0] == snapshots[1]


@pytest.mark.thirdparty
def test_no_hit_leaves_a_short_request_untracked(vllm: Any) -> None:
    request = prompt("a", range(5))
    hit = vllm.get_computed_blocks(request)
    assert hit.num_tokens == 0
    for empty in (hit, replace(hit, handle=None)):
        assert vllm.allocate_slots(request, 5, hit=empty) is not None
        while_held = vllm.snapshot()
        vllm.preempt(running(request, 5))
        assert vllm.allocate_slots(request, 5) is not None
        assert vllm.snapshot() == while_held
        vllm.free(request)


@pytest.mark.thirdparty
def test_salts_and_extra_keys_keep_requests_apart(vllm: Any) -> None:
    variants: list[dict[str, Any]] = [
        {},
        {"cache_salt": "salt"},
        {"extra_keys": ("image",)},
        {"extra_keys": ("image", "adapter")},
        {"cache_salt": "salt", "extra_keys": ("image",)},
    ]
    for index, variant in enumerate(variants):
        request = prompt(f"first {index}", range(40), **variant)
        assert vllm.get_computed_blocks(request).num_tokens == 0
        vllm.allocate_slots(request, 40)
    for index, variant in enumerate(variants):
        assert vllm.get_computed_blocks(prompt(f"second {index}", range(40), **variant)).num_tokens == 32


@pytest.mark.thirdparty
def test_groups_have_keys_of_their_own(vllm: Any) -> None:
    vllm.reset(config(10, FULL, WINDOW))
    vllm.allocate_slots(prompt("a", range(20)), 20)
    keys = dict(vllm.cached_keys())
    assert keys.keys() == {1, 3}
    assert keys[1] != keys[3]
    assert {key for _, key in vllm.take_events()} == set(keys.values())


@pytest.mark.thirdparty
def test_drafts_get_no_keys_and_delayed_blocks_get_them_at_the_commit(vllm: Any) -> None:
    request = prompt("a", range(31))
    vllm.allocate_slots(replace(request, draft_token_ids=(1, 2, 3, 4, 5)), 36)
    assert [block for block, _ in vllm.cached_keys()] == [1]
    loaded = prompt("b", range(100, 140))
    vllm.allocate_slots(loaded, 0, num_external_computed_tokens=32, delay_cache_blocks=True)
    assert [block for block, _ in vllm.cached_keys()] == [1]
    vllm.commit(replace(loaded, num_computed_tokens=32), 32)
    assert [block for block, _ in vllm.cached_keys()] == [1, 4, 5]


@pytest.mark.thirdparty
@pytest.mark.parametrize("groups", [(FULL,), (WINDOW,), (FULL, WINDOW)])
def test_the_events_replayed_are_the_index(vllm: Any, groups: tuple[Any, ...]) -> None:
    vllm.reset(config(14, *groups))
    replayed: Counter[object] = Counter()
    verbs = set()
    for round_, length in enumerate((40, 70, 40, 90)):
        request = prompt(f"r{round_}", range(round_ % 2, length))
        vllm.allocate_slots(request, len(request.token_ids) - 1)
        vllm.free(request)
        vllm.evict([1])
        for verb, key in vllm.take_events():
            replayed[key] += 1 if verb == "stored" else -1
            verbs.add(verb)
        assert +replayed == Counter(key for _, key in vllm.cached_keys())
    assert verbs == {"stored", "removed"}
    assert vllm.reset_prefix_cache() is True
    assert vllm.take_events() == [("cleared", "")]
    assert vllm.cached_keys() == []


@pytest.mark.thirdparty
def test_a_preempted_request_hits_its_own_blocks(vllm: Any) -> None:
    request = prompt("a", range(40))
    vllm.allocate_slots(request, 40)
    assert vllm.reset_prefix_cache() is False
    vllm.preempt(running(request, 40, 7))
    again = replace(request, token_ids=(*range(40), 7), status="preempted")
    hit = vllm.get_computed_blocks(again)
    assert hit.num_tokens == 32
    assert vllm.allocate_slots(again, 9, hit=hit) is not None


@pytest.mark.thirdparty
def test_without_caching_nothing_has_a_key(vllm: Any) -> None:
    vllm.reset(config(10, FULL, WINDOW, caching=False))
    request = prompt("a", range(40))
    vllm.allocate_slots(request, 40)
    vllm.commit(running(request, 40), 40)
    assert vllm.cached_keys() == []
    assert vllm.get_computed_blocks(prompt("b", range(40))).num_tokens == 0
    vllm.free(request)
    assert vllm.free_queue() == [6, 5, 4, 3, 2, 1, 7, 8, 9]
