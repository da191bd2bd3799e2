"""Caller's mistakes in `allocate_slots`, each a `ValueError` raised before anything changes."""

from collections.abc import Sequence

from slotproof.impl.config import AllocatorConfig
from slotproof.impl.lookup import FoundBlocks
from slotproof.impl.prefix_index import PrefixIndex
from slotproof.impl.request import Request

Hit = Sequence[Sequence[int]]


def check_counts(request: Request, new: int, hit: int, lookahead: int, external: int, reserved: int) -> None:
    """Counts are not negative, and there is something to do."""
    if (
        new < 0
        or hit < 0
        or lookahead < 0
        or external < 0
        or reserved < 0
        or request.num_computed_tokens < 0
        or request.num_in_flight_tokens < 0
    ):
        raise ValueError(
            f"{_name(request)}: negative count among new {new}, hit {hit}, lookahead {lookahead}, external {external}, "
            f"reserved {reserved}, computed {request.num_computed_tokens}, in flight {request.num_in_flight_tokens}; "
            "give 0 or more"
        )
    if not (new or hit or external):
        raise ValueError(f"{_name(request)}: nothing to allocate; give new, hit or external tokens, or do not call")


def check_span(request: Request, config: AllocatorConfig, end: int, held: int) -> None:
    """Tokens stay within max_model_len, and computed ones have slots (COUNT-1 rests on it)."""
    if end > config.max_model_len:
        raise ValueError(
            f"{_name(request)}: computed, hit, external and new tokens end at {end}, past max_model_len "
            f"{config.max_model_len}; give fewer new tokens"
        )
    if request.num_computed_tokens > held * config.block_size:
        raise ValueError(
            f"{_name(request)}: {request.num_computed_tokens} computed tokens but {held * config.block_size} slots; "
            "set num_computed_tokens to 0 after a free"
        )
    if request.block_size != config.block_size:
        raise ValueError(
            f"{_name(request)}: hashed in blocks of {request.block_size} tokens, the pool has {config.block_size}; "
            "give the request the pool's block size"
        )
    if request.hash_size != (config.hash_size or config.block_size):
        raise ValueError(
            f"{_name(request)}: hashed at every {request.hash_size} tokens, the pool at every "
            f"{config.hash_size or config.block_size}; give the request the pool's hash_size"
        )


def check_adoption(
    request: Request, config: AllocatorConfig, index: PrefixIndex, held: int, hit_tokens: int, hit: Hit, external: int
) -> None:
    """A hit or external prefix comes first, and every hit block still carries the key of its position."""
    if (
        isinstance(hit, FoundBlocks)
        and not held
        and len(hit[0]) * config.block_size + hit.tail_tokens == hit_tokens
        and hit.still_offered(request, index)
    ):
        return
    if held:
        raise ValueError(
            f"{_name(request)}: hit or external tokens for a request that already holds blocks; "
            "adopt them on its first call"
        )
    length, rest = divmod(hit_tokens, config.block_size)
    if rest and not config.has_partial_hits:
        raise ValueError(f"{_name(request)}: hit of {hit_tokens} tokens is no multiple of {config.block_size}")
    if rest:
        check_tail(request, index, length, rest, hit)
    if len(hit) != len(config.groups) or any(len(blocks) != length for blocks in hit):
        raise ValueError(
            f"{_name(request)}: hit of {hit_tokens} tokens needs {length} blocks in each of {len(config.groups)} "
            f"groups, got {[len(blocks) for blocks in hit]}; pass what get_computed_blocks returned"
        )
    hashes = request.block_hashes
    if length > len(hashes):
        raise ValueError(
            f"{_name(request)}: hit of {hit_tokens} tokens in a request of {request.num_tokens}; "
            "pass what get_computed_blocks returned for this request"
        )
    for group, blocks in enumerate(hit):
        skipped = config.groups[group].skipped_blocks(hit_tokens + external)
        position = index.first_stale(group, blocks, hashes, skipped)
        if position is not None:
            raise ValueError(
                f"{_name(request)}: stale hit, block {blocks[position]} of group {group} does not carry the key of "
                f"position {position}; look up again right before the call"
            )


def check_tail(request: Request, index: PrefixIndex, length: int, rest: int, hit: Hit) -> None:
    """A hit ends inside a block only as the lookup found it, and where its blocks still hold that."""
    if not isinstance(hit, FoundBlocks) or hit.tail_tokens != rest:
        raise ValueError(
            f"{_name(request)}: hit ends {rest} tokens into a block of {request.block_size}; "
            "pass what get_computed_blocks returned"
        )
    parts = request.parts_of(length, rest)
    for group, block in enumerate(hit.tails):
        if not parts or not index.offers_part(group, block, parts[-1]):
            raise ValueError(
                f"{_name(request)}: stale hit, block {block} of group {group} no longer offers what is to be copied "
                "from it; look up again right before the call"
            )


def _name(request: Request) -> str:
    return f"allocate_slots({request.request_id!r})"
