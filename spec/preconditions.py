"""What a caller owes: each duty has a name, and a call that neglects one is a `PreconditionError` before anything is
done.
"""

from slotproof.spec.keys import block_key
from slotproof.spec.lookup import Hit
from slotproof.spec.pool import NULL_BLOCK
from slotproof.spec.request import Request
from slotproof.spec.snapshot import Holding, Part, Snapshot

PRECONDITIONS: dict[str, str] = {
    "counts-not-negative": "token and block counts are not negative",
    "something-to-allocate": "a call brings new tokens, or adopts hit or external tokens",
    "within-model-length": "computed, hit, external and new tokens together do not exceed max_model_len",
    "table-covers-computed": "the blocks a request holds cover its computed tokens",
    "adopt-before-holding": "hit and external tokens are adopted by a request that holds no block",
    "in-flight-is-computed": "tokens in flight are part of the computed tokens",
    "hit-is-whole-blocks": "a hit is a whole number of blocks, the same in every group, and leaves a token to compute",
    "hit-is-current": (
        "each block of a hit still carries the key of its position, so all differ; what no window reads may be null"
    ),
    "tail-is-current": (
        "a hit that ends inside a block does so at the hash granularity, and names a block in every group that offers "
        "that prefix for copying"
    ),
    "commit-is-held": "only tokens that are finalized and held are committed",
    "block-exists": "a block id names a usable block",
}
"""Name and meaning; the reach table excludes a cell only by one of these names."""


class PreconditionError(ValueError):
    """A call outside the specification's domain; `name` is a key of PRECONDITIONS."""

    def __init__(self, name: str) -> None:
        super().__init__(f"precondition {name}: {PRECONDITIONS[name]}")
        self.name = name


def require(holds: bool, name: str) -> None:
    """Raise a PreconditionError unless the duty is met."""
    if not holds:
        raise PreconditionError(name)


def require_call(
    snapshot: Snapshot,
    request: Request,
    hit: Hit,
    num_external: int,
    num_new: int,
    num_lookahead: int,
    reserved: int,
) -> None:
    """The duties of a caller of `allocate_slots`."""
    config = snapshot.config
    computed, adopted = request.num_computed_tokens, hit.num_tokens + num_external
    require(num_new >= 0 and num_external >= 0 and num_lookahead >= 0 and reserved >= 0, "counts-not-negative")
    require(num_new + adopted > 0, "something-to-allocate")
    require(computed + adopted + num_new <= config.max_model_len, "within-model-length")
    require(request.num_in_flight_tokens <= computed, "in-flight-is-computed")
    holding = snapshot.holding(request.request_id)
    for table in holding.tables:
        require(computed <= table.length * config.block_size, "table-covers-computed")
    if adopted > 0 or hit.names_blocks:
        require_adoption(snapshot, request, hit, holding)


def require_adoption(snapshot: Snapshot, request: Request, hit: Hit, holding: Holding) -> None:
    """The duties of a caller that brings a hit, though it be of no token, or external tokens."""
    config = snapshot.config
    num_blocks = hit.num_tokens // config.block_size
    require(all(table.length == 0 for table in holding.tables), "adopt-before-holding")
    if hit.tails:
        require_tails(snapshot, request, hit)
    else:
        require(num_blocks * config.block_size == hit.num_tokens, "hit-is-whole-blocks")
    require(hit.num_tokens < request.num_tokens, "hit-is-whole-blocks")
    require(len(hit.blocks) == len(config.groups), "hit-is-whole-blocks")
    for number, blocks in enumerate(hit.blocks):
        require(len(blocks) == num_blocks, "hit-is-whole-blocks")
        first_read = num_blocks - config.groups[number].blocks_read(num_blocks)
        for index, block in enumerate(blocks):
            key = block_key(request.prefix_key(index), number, len(config.groups))
            current = index < first_read if block == NULL_BLOCK else snapshot.pool.key_of(block) == key
            require(current, "hit-is-current")


def require_tails(snapshot: Snapshot, request: Request, hit: Hit) -> None:
    """The duties of a caller that brings a hit that ends inside a block."""
    config, num_groups = snapshot.config, len(snapshot.config.groups)
    index, rest = divmod(hit.num_tokens, config.block_size)
    keys = request.parts_of(index)[: rest // config.hash_unit]
    require(rest > 0 and len(keys) * config.hash_unit == rest, "tail-is-current")
    require(len(hit.tails) == num_groups, "tail-is-current")
    for number, block in enumerate(hit.tails):
        require(Part(block_key(keys[-1], number, num_groups), block) in snapshot.parts, "tail-is-current")


def require_usable(snapshot: Snapshot, blocks: tuple[int, ...]) -> None:
    """The duty of who names blocks."""
    for block in blocks:
        require(0 < block < snapshot.config.num_blocks, "block-exists")
