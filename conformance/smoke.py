"""The smoke check: the simplest request must get through before the laws are asked, so that a broken adapter is not
taken for a broken allocator.
"""

from collections.abc import Callable
from typing import TypeVar

from slotproof.conformance.adapter import Adapter
from slotproof.conformance.errors import AdapterError
from slotproof.conformance.observation import Window
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention, SlidingWindow
from slotproof.spec.keys import KeyTable
from slotproof.spec.request import new_request, schedule

Answer = TypeVar("Answer")


def smoke_check(adapter: Adapter) -> None:
    """Reset, admit a request of one block in a pool of eight, look at it and free it.

    Raises:
        AdapterError: naming the call that failed and what to do.
    """
    profile = adapter.profile
    block_size = 4 if profile.block_sizes is None or 4 in profile.block_sizes else profile.block_sizes[0]
    group = FullAttention(block_size) if "full" in profile.group_kinds else SlidingWindow(block_size, 2 * block_size)
    length = 8 * block_size
    config = Config(9, (group,), length, length, caching=profile.caching[0])
    _call("reset", lambda: adapter.reset(config))
    _, request = new_request(KeyTable(), "A", tuple(range(1, block_size + 1)), block_size)
    window = Window(adapter, config)
    free = _call("num_free_blocks", lambda: window.look(())).num_free
    answer = _call("allocate_slots", lambda: adapter.allocate_slots(request, block_size))
    if answer is None:
        raise AdapterError(
            f"the smoke check failed: allocate_slots refused {block_size} tokens in an empty pool of 8 blocks; "
            "check what the adapter makes of num_blocks and block_size"
        )
    window.ids(answer, "allocate_slots")
    request = schedule(request, 0, block_size)
    seen = _call("block_table", lambda: window.look([request]))
    if not any(seen.tables["A"]):
        raise AdapterError("the smoke check failed: block_table is empty after an accepted allocate_slots")
    _call("free", lambda: adapter.free(request))
    after = _call("num_free_blocks", lambda: window.look(())).num_free
    if after != free and profile.free_counts_cached:
        raise AdapterError(
            f"the smoke check failed: {free} blocks were free before the only request and {after} after it was freed; "
            "if cached blocks do not count as free, say free_counts_cached=False in the profile"
        )


def _call(name: str, call: Callable[[], Answer]) -> Answer:
    try:
        return call()
    except AdapterError:
        raise
    except Exception as error:
        raise AdapterError(
            f"the smoke check failed: {name} raised {type(error).__name__}: {error}; "
            "the simplest call must work before laws are checked"
        ) from error
