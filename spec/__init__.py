"""The executable reference of `allocate_slots`: pure functions over immutable snapshots, standard library only.

    keys, request = new_request(KeyTable(), "r", prompt=(1, 2, 3, 4, 5), block_size=4)
    answer = allocate_slots(empty(config), request, 5)

Operations return new values; nothing is ever changed in place. `laws.LAWS` says what must hold of each step.
`slotproof.spec.scheduler` is the scheduler around the call.
"""

from slotproof.spec.admission import Allocation, Call, Reason, Refusal, admit, allocate_slots, commit
from slotproof.spec.config import Config, FreeOrder
from slotproof.spec.copies import release_copy
from slotproof.spec.groups import FullAttention, Group, SlidingWindow
from slotproof.spec.keys import KeyTable
from slotproof.spec.laws import LAWS, Law
from slotproof.spec.lookup import Hit, get_computed_blocks
from slotproof.spec.preconditions import PRECONDITIONS, PreconditionError
from slotproof.spec.release import defer_free, evict_blocks, free, preempt, reset_prefix_cache, return_deferred
from slotproof.spec.request import Request, Status, append_tokens, new_request, schedule, settle
from slotproof.spec.snapshot import Copy, Holding, Part, Snapshot, Table, empty
from slotproof.spec.transition import Transition

__all__ = [
    "LAWS",
    "PRECONDITIONS",
    "Allocation",
    "Call",
    "Config",
    "Copy",
    "FreeOrder",
    "FullAttention",
    "Group",
    "Hit",
    "Holding",
    "KeyTable",
    "Law",
    "Part",
    "PreconditionError",
    "Reason",
    "Refusal",
    "Request",
    "SlidingWindow",
    "Snapshot",
    "Status",
    "Table",
    "Transition",
    "admit",
    "allocate_slots",
    "append_tokens",
    "commit",
    "defer_free",
    "empty",
    "evict_blocks",
    "free",
    "get_computed_blocks",
    "new_request",
    "preempt",
    "release_copy",
    "reset_prefix_cache",
    "return_deferred",
    "schedule",
    "settle",
]
