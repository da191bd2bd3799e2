"""A tiny allocator in a child process, seen through the proxy."""

import inspect
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from slotproof.conformance import adapter as protocols
from slotproof.conformance import remote
from slotproof.conformance.adapter import NO_HIT, Hit, Strictness
from slotproof.conformance.driver import walk_episode
from slotproof.conformance.errors import AdapterError, SetupError
from slotproof.conformance.remote import RemoteAdapter, RemoteTargetError, start_command, start_python
from slotproof.conformance.session import Tally
from slotproof.conformance.settings import Settings
from slotproof.conformance.targets.impl import ImplAdapter
from slotproof.spec.config import Config, FreeOrder
from slotproof.spec.groups import FullAttention, SlidingWindow

TOY = '''
import os
import sys
import time

from slotproof.conformance.adapter import Hit, Profile, Strictness


class Full(MemoryError):
    pass


class Toy:
    """One group, no cache: takes blocks from the front of a list."""

    def __init__(self):
        flags = dict(strictness=Strictness.COUNTS, refusals=(MemoryError,), block_sizes=(2,), notes=("toy",))
        self.profile = Profile(name="toy", version="7", **flags)
        self.extra = "not seen"

    def reset(self, config):
        self.config = config
        self.queue = list(range(1, config.num_blocks))
        self.tables = {}
        self.counts = [0] * config.num_blocks
        self.events = []

    def allocate_slots(self, request, num_new_tokens, *, hit=None, reserved_blocks=0):
        trouble(request.request_id)
        wanted = -(-(request.num_computed_tokens + num_new_tokens) // 2) - len(self.tables.get(request.request_id, []))
        if wanted + reserved_blocks > len(self.queue):
            return None
        taken = [self.queue.pop(0) for _ in range(max(wanted, 0))]
        self.tables.setdefault(request.request_id, []).extend(taken)
        for block in taken:
            self.counts[block] += 1
        self.events.append(("stored", (request.request_id, b"x")))
        self.seen = (request, hit, self.config)
        return taken

    def free(self, request):
        for block in reversed(self.tables.pop(request.request_id, [])):
            self.counts[block] -= 1
            self.queue.append(block)

    def block_table(self, request):
        return self.tables.get(request.request_id, [])

    def num_free_blocks(self):
        return len(self.queue)

    def get_computed_blocks(self, request):
        return Hit(2, ((1,),), object())

    def release_hit(self, hit):
        assert type(hit.handle) is object

    def free_queue(self):
        return self.queue

    def ref_count(self, block_id):
        return self.counts[block_id]

    def cached_keys(self):
        return [(1, ("key", 3)), (2, "plain")]

    def snapshot(self):
        return (tuple(self.queue), {name: tuple(table) for name, table in self.tables.items()})

    def take_events(self):
        events, self.events = self.events, []
        return events

    def commit(self, request, num_computed_tokens):
        raise RuntimeError(repr(self.seen))


def trouble(name):
    if name == "print":
        print("a print of the target")
        os.system("echo a print of a grandchild")
        os.write(1, b"bytes on descriptor 1\\n")
        assert sys.stdin.read() == ""
    if name == "full":
        raise Full("no room")
    if name == "broken":
        raise KeyError("lost")
    if name == "exit":
        print("last words", file=sys.stderr)
        sys.stderr.flush()
        os._exit(3)
    if name == "hang":
        time.sleep(60)


def picky():
    from slotproof.conformance.errors import SetupError

    raise SetupError("it wants a licence.")
'''


@dataclass(frozen=True)
class View:
    request_id: str
    token_ids: tuple[int, ...] = (1, 2, 3)
    num_prompt_tokens: int = 3
    num_computed_tokens: int = 0
    num_in_flight_tokens: int = 0
    status: str = "waiting"
    draft_token_ids: tuple[int, ...] = ()
    cache_salt: str | None = None
    extra_keys: tuple[str, ...] = ()


FUTURE_SERVER = """read line; echo '{"id":1,"ok":{"protocol":2}}'"""

CONFIG = Config(num_blocks=6, groups=(FullAttention(2),), max_model_len=100, max_in_flight_tokens=10)


@pytest.fixture
def toy_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "toy_allocator.py").write_text(TOY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def toy(toy_folder: Path) -> Iterator[Any]:
    adapter = start_python("toy_allocator:Toy", sys.executable)
    adapter.reset(CONFIG)
    yield adapter
    adapter.close()


def test_the_profile_arrives_whole(toy: Any) -> None:
    profile = toy.profile
    assert (profile.name, profile.version, profile.strictness) == ("toy", "7", Strictness.COUNTS)
    assert profile.refusals == (MemoryError,)
    assert profile.block_sizes == (2,)
    assert profile.notes == ("toy",)
    assert profile.group_kinds == ("full",)


def test_optional_calls_are_there_exactly_when_the_child_has_them(toy: Any) -> None:
    present = {kind.__name__ for kind in protocols.OPTIONAL_CALLS if isinstance(toy, kind)}
    assert present == {
        "LooksUp",
        "ReleasesHits",
        "Commits",
        "CountsReferences",
        "ShowsKeys",
        "ShowsQueue",
        "Snapshots",
        "EmitsEvents",
    }


def test_the_signature_is_the_childs(toy: Any) -> None:
    parameters = inspect.signature(toy.allocate_slots).parameters
    assert list(parameters) == ["request", "num_new_tokens", "hit", "reserved_blocks"]
    assert parameters["hit"].default is NO_HIT
    assert parameters["reserved_blocks"].default == 0


def test_calls_and_observations(toy: Any) -> None:
    view = View("a")
    for _ in range(2):
        assert toy.allocate_slots(view, 3) == ((1, 2),)
        assert toy.block_table(view) == ((1, 2),)
        assert (toy.num_free_blocks(), toy.free_queue()) == (3, [3, 4, 5])
        assert [toy.ref_count(block) for block in range(6)] == [0, 1, 1, 0, 0, 0]
        assert toy.allocate_slots(View("b"), 3, reserved_blocks=2) is None
        assert toy.num_free_blocks() == 3
        toy.free(view)
        assert toy.block_table(view) == ()
        assert (toy.num_free_blocks(), toy.free_queue()) == (5, [3, 4, 5, 2, 1])
        assert [toy.ref_count(block) for block in range(6)] == [0, 0, 0, 0, 0, 0]
        toy.reset(CONFIG)


def test_the_child_sees_the_request_the_hit_and_the_config(toy: Any) -> None:
    config = Config(
        9, (FullAttention(2), SlidingWindow(2, 3)), 50, 7, watermark_blocks=2, caching=False, free_order=FreeOrder.LRU
    )
    toy.reset(config)
    view = View("a", (5, 6), 2, draft_token_ids=(9,), cache_salt="salt", extra_keys=("x", "y"))
    toy.allocate_slots(view, 2, hit=NO_HIT)
    grown = replace(view, token_ids=(5, 6, 7, 8), num_computed_tokens=2, num_in_flight_tokens=1, status="running")
    toy.allocate_slots(grown, 1, hit=Hit(2, ((1,),)))
    with pytest.raises(RemoteTargetError) as caught:
        toy.commit(grown, 4)
    assert str(caught.value) == (
        "RuntimeError: (WireRequest(request_id='a', token_ids=(5, 6, 7, 8), num_prompt_tokens=2, "
        "num_computed_tokens=2, num_in_flight_tokens=1, status='running', draft_token_ids=(9,), "
        "cache_salt='salt', extra_keys=('x', 'y')), "
        f"Hit(num_tokens=2, blocks=((1,),), tails=()), {config!r})"
    )


def test_a_freed_request_that_comes_again_is_sent_whole(toy: Any) -> None:
    view = View("a", (5, 6, 7), 2)
    toy.allocate_slots(view, 3)
    toy.free(view)
    toy.allocate_slots(replace(view, token_ids=(5, 6, 7, 8), status="preempted"), 4)
    with pytest.raises(RemoteTargetError, match=r"token_ids=\(5, 6, 7, 8\), .* status='preempted'"):
        toy.commit(view, 4)


def test_handles_stay_in_the_child(toy: Any) -> None:
    hit = toy.get_computed_blocks(View("a"))
    assert (hit.num_tokens, hit.blocks) == (2, ((1,),))
    assert isinstance(hit.handle, int)
    toy.release_hit(hit)
    with pytest.raises(RemoteTargetError, match="AssertionError"):
        toy.release_hit(replace(hit, handle=None))


def test_equal_snapshots_are_equal_and_others_are_not(toy: Any) -> None:
    first = toy.snapshot()
    toy.allocate_slots(View("a"), 3)
    second = toy.snapshot()
    assert toy.allocate_slots(View("b"), 30) is None
    assert toy.snapshot() == second != first


def test_keys_and_events_are_hashable_and_agree(toy: Any) -> None:
    assert toy.cached_keys() == [(1, "('key', 3)"), (2, "plain")]
    for name in "abc":
        toy.allocate_slots(View(name), 1)
    stored = [("stored", f"('{name}', b'x')") for name in "abc"]
    assert toy.take_events() == stored
    assert toy.take_events() == []
    toy.allocate_slots(View("d"), 1)
    assert toy.num_free_blocks() == 1
    assert toy.take_events() == [("stored", "('d', b'x')")]


def test_prints_of_the_target_do_not_disturb(toy: Any) -> None:
    assert toy.allocate_slots(View("print"), 1) == ((1,),)
    assert toy.num_free_blocks() == 4


def test_a_declared_exception_is_the_declared_refusal(toy: Any) -> None:
    with pytest.raises(MemoryError, match="no room"):
        toy.allocate_slots(View("full"), 1)
    assert toy.num_free_blocks() == 5


def test_an_undeclared_exception_keeps_its_name(toy: Any) -> None:
    with pytest.raises(RemoteTargetError, match=r"^KeyError: 'lost'$"):
        toy.allocate_slots(View("broken"), 1)


def test_the_death_of_the_child(toy: Any) -> None:
    with pytest.raises(AdapterError) as caught:
        toy.allocate_slots(View("exit"), 1)
    assert str(caught.value) == (
        f"The process of the target toy_allocator:Toy@{sys.executable} ended with exit code 3 instead of answering "
        "allocate_slots; the end of its standard error: last words"
    )
    with pytest.raises(AdapterError, match="ended with exit code 3"):
        toy.num_free_blocks()


def test_a_silent_child_is_ended(toy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote.Channel.exchange, "__defaults__", (0.2,))
    monkeypatch.setattr(remote, "FAREWELL_SECONDS", 0.1)
    with pytest.raises(AdapterError, match="did not answer allocate_slots within"):
        toy.allocate_slots(View("hang"), 1)


def test_a_step_costs_one_round_trip_once_the_questions_are_known(toy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    exchange = remote.Channel.exchange

    def counted(self: remote.Channel, message: dict[str, object], *rest: float) -> dict[str, object]:
        calls.append(str(message["call"]))
        return exchange(self, message, *rest)

    monkeypatch.setattr(remote.Channel, "exchange", counted)
    view = View("a")
    for computed in range(8):
        calls.clear()
        toy.allocate_slots(replace(view, num_computed_tokens=computed), 1)
        _ = toy.num_free_blocks(), toy.block_table(view), [toy.ref_count(block) for block in range(6)]
        _ = toy.snapshot(), toy.take_events(), toy.free_queue()
        if computed:
            assert calls == ["allocate_slots"]


def test_throughput(toy: Any) -> None:
    """Half of the goal of 1,500 steps a second, so that a busy machine does not fail it."""
    started = time.perf_counter()
    num_steps = 0
    while time.perf_counter() - started < 1:
        _drive_one_request(toy)
        num_steps += 6
    assert num_steps > 750


def _drive_one_request(toy: Any) -> None:
    view = View(f"r{time.perf_counter_ns()}")
    for computed in range(5):
        view = replace(view, num_computed_tokens=computed)
        toy.get_computed_blocks(view)
        toy.allocate_slots(view, 1)
        _observe(toy, view)
    toy.free(view)
    _observe(toy, view)


def _observe(toy: Any, view: View) -> None:
    _ = toy.num_free_blocks(), toy.block_table(view), [toy.ref_count(block) for block in range(6)]
    _ = toy.snapshot(), toy.take_events(), toy.free_queue(), toy.cached_keys()


@pytest.mark.parametrize(
    ("start", "kind", "sentence"),
    [
        (
            lambda: start_python("toy_allocator:picky", sys.executable),
            SetupError,
            f"In toy_allocator:picky@{sys.executable}: it wants a licence.",
        ),
        (
            lambda: start_python("toy_allocator:Toy", "/no/such/python"),
            SetupError,
            "There is no program '/no/such/python' to run the target 'toy_allocator:Toy' with; "
            "give the path of a Python.",
        ),
        (
            lambda: start_command("echo hello; cat"),
            AdapterError,
            r"The target exec:echo hello; cat answered hello with b'hello\n', which is no reply of the protocol "
            "(the message's id and ok or error); it must print nothing else on its standard output.",
        ),
        (
            lambda: start_command("echo gone >&2; exit 4"),
            AdapterError,
            "The process of the target exec:echo gone >&2; exit 4 ended with exit code 4 instead of answering hello; "
            "the end of its standard error: gone",
        ),
        (
            lambda: start_command(FUTURE_SERVER),
            AdapterError,
            f"The target exec:{FUTURE_SERVER} greeted with something the protocol does not allow, "
            "ValueError: it speaks protocol 2, not 1; see the documentation of slotproof.conformance.remote.",
        ),
    ],
)
@pytest.mark.usefixtures("toy_folder")
def test_starts_that_fail(start: Callable[[], RemoteAdapter], kind: type[Exception], sentence: str) -> None:
    with pytest.raises(SetupError) as caught:
        start()
    assert type(caught.value) is kind
    assert str(caught.value) == sentence


SHELL_SERVER = r"""
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    answers = {"num_free_blocks": 4, "allocate_slots": [3, 1], "block_table": [3, 1]}
    hello = {"protocol": 1, "profile": {"name": "shell", "refusals": ["OutOfRoom"]}, "calls": [], "parameters": ["hit"]}
    reply = {"id": message["id"], "ok": hello if message["call"] == "hello" else answers.get(message["call"])}
    if message.get("num_new_tokens") == 99:
        reply = {"id": message["id"], "error": {"type": "OutOfRoom", "message": "full", "refusal": "OutOfRoom"}}
    if "observe" in message:
        reply["observation"] = [{"ok": answers[question["call"]]} for question in message["observe"]]
    print(json.dumps(reply), flush=True)
"""


def test_a_command_that_speaks_the_protocol(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SHELL_SERVER)
    adapter = start_command(f"{sys.executable} {tmp_path / 'server.py'}")
    adapter.reset(CONFIG)
    view = View("a")
    assert adapter.profile.name == "shell"
    assert adapter.profile.strictness is Strictness.SAFETY
    assert adapter.allocate_slots(view, 2) == ((3, 1),)
    assert (adapter.block_table(view), adapter.num_free_blocks()) == (((3, 1),), 4)
    (refusal,) = adapter.profile.refusals
    assert refusal.__name__ == "OutOfRoom"
    with pytest.raises(refusal, match="full"):
        adapter.allocate_slots(view, 99)
    adapter.close()


def test_the_child_ends_with_its_adapter(toy: Any) -> None:
    process = toy._channel._process
    toy.close()
    assert process.returncode == 0
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


def test_our_allocator_answers_through_a_child_as_it_does_here() -> None:
    """Hits that end inside a block, their copies, and batches among the rest."""
    adapter = start_python("impl", sys.executable)
    near, far = Tally.fresh(), Tally.fresh()
    for target, tally in ((ImplAdapter(), near), (adapter, far)):
        assert walk_episode(target, Settings("partial"), "remote", 150, tally) is None
    adapter.close()
    assert near.checks == far.checks
    assert near.checks["MEM-2"] > 0
