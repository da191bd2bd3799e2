"""Theorems about `spec/arithmetic.py`: every count, for all integers and every block size."""

from slotproof.proofs.scope import Scope, negated
from slotproof.proofs.theorem import theorem
from slotproof.spec import arithmetic


@theorem("TABLE-1", "ceil_div gives blocks that hold the tokens, and one block fewer does not.")
def a_table_has_exactly_the_blocks_its_tokens_need(s: Scope) -> None:
    tokens, block_size = s.integer("tokens"), s.integer("block_size", 1)
    blocks = arithmetic.ceil_div(tokens, block_size)
    s.prove(blocks * block_size >= tokens)
    s.assume(tokens > 0)
    s.prove((blocks - 1) * block_size < tokens)


@theorem(
    "TABLE-1", "Slots end with the tokens computed, new and looked ahead, or with the model's length, if that is less."
)
def slots_never_reach_past_the_model(s: Scope) -> None:
    computed, new, lookahead, longest = (s.integer(name) for name in ("computed", "new", "lookahead", "max_model_len"))
    slots = arithmetic.slots_needed(computed, new, lookahead, longest)
    s.prove(slots <= longest)
    s.prove(slots <= computed + new + lookahead)
    s.prove((slots == longest) | (slots == computed + new + lookahead))


@theorem("HASH-1", "Every block that gets a key holds finalized tokens only.")
def only_finalized_blocks_are_counted_as_full(s: Scope) -> None:
    computed, new, num_tokens = s.integer("computed"), s.integer("new"), s.integer("num_tokens")
    block_size, entry = s.integer("block_size", 1), s.integer("entry")
    s.assume(entry < arithmetic.tokens_to_cache(computed, new, num_tokens) // block_size)
    s.prove((entry + 1) * block_size <= num_tokens)


@theorem("HASH-2", "Every block that is computed and finalized to its end is counted as full.")
def every_full_finalized_block_is_counted(s: Scope) -> None:
    computed, new, num_tokens = s.integer("computed"), s.integer("new"), s.integer("num_tokens")
    block_size, entry = s.integer("block_size", 1), s.integer("entry")
    s.assume((entry + 1) * block_size <= computed + new)
    s.assume((entry + 1) * block_size <= num_tokens)
    s.prove(entry < arithmetic.tokens_to_cache(computed, new, num_tokens) // block_size)


@theorem("HASH-3", "However many drafts come behind the finalized tokens, the same tokens are offered.")
def drafts_offer_nothing(s: Scope) -> None:
    computed, new, num_tokens = s.integer("computed"), s.integer("new"), s.integer("num_tokens")
    drafts = s.integer("drafts")
    s.assume(computed + new >= num_tokens)
    with_drafts = arithmetic.tokens_to_cache(computed, new + drafts, num_tokens)
    s.prove(with_drafts == arithmetic.tokens_to_cache(computed, new, num_tokens))


@theorem("COUNT-1", "What is missing is what is required less what is skipped or present, and never less than nothing.")
def what_is_missing_is_exact(s: Scope) -> None:
    required, skipped, present = s.integer("required"), s.integer("skipped"), s.integer("present")
    covered = s.integer("covered")
    s.assume((covered >= skipped) & (covered >= present))
    s.assume((covered == skipped) | (covered == present))
    missing = arithmetic.blocks_missing(required, skipped, present)
    s.prove(missing >= 0)
    s.prove(missing >= required - covered)
    s.prove((missing == 0) | (missing == required - covered))


@theorem("COUNT-3", "One token more needs at most one block more.")
def one_token_needs_at_most_one_block(s: Scope) -> None:
    tokens, block_size = s.integer("tokens"), s.integer("block_size", 1)
    before, after = arithmetic.ceil_div(tokens, block_size), arithmetic.ceil_div(tokens + 1, block_size)
    s.prove(after <= before + 1)
    s.prove(after >= before)


@theorem("COUNT-3", "One token more needs no block more unless the tokens before it end at a block boundary.")
def off_a_boundary_one_token_needs_no_block(s: Scope) -> None:
    tokens, block_size = s.integer("tokens"), s.integer("block_size", 1)
    s.assume(tokens % block_size != 0)
    s.prove(arithmetic.ceil_div(tokens + 1, block_size) == arithmetic.ceil_div(tokens, block_size))


@theorem("COUNT-3", "The need does not fall when more tokens are asked for or looked ahead.")
def need_grows_with_new_tokens_and_lookahead(s: Scope) -> None:
    computed, new, lookahead, longest = (s.integer(name) for name in ("computed", "new", "lookahead", "max_model_len"))
    block_size, present, more = s.integer("block_size", 1), s.integer("present"), s.integer("more")

    def need(new: int, lookahead: int) -> int:
        slots = arithmetic.slots_needed(computed, new, lookahead, longest)
        return arithmetic.blocks_missing(arithmetic.ceil_div(slots, block_size), 0, present)

    s.prove(need(new + more, lookahead) >= need(new, lookahead))
    s.prove(need(new, lookahead + more) >= need(new, lookahead))


@theorem("REFUSE-2", "A need that just fits is not short, and one block more is.")
def equality_admits(s: Scope) -> None:
    needed, watermark, reserved = s.integer("needed"), s.integer("watermark"), s.integer("reserved")
    free = needed + watermark + reserved
    s.prove(negated(arithmetic.is_short(needed, watermark, free, reserved)))
    s.prove(arithmetic.is_short(needed + 1, watermark, free, reserved))


@theorem("ADMIT-3", "If a need is not short, reserve and watermark are still free when it has been taken.")
def what_is_admitted_leaves_the_reserve(s: Scope) -> None:
    needed, watermark, free, reserved = (s.integer(name) for name in ("needed", "watermark", "free", "reserved"))
    s.assume(negated(arithmetic.is_short(needed, watermark, free, reserved)))
    s.prove(free - needed >= reserved + watermark)


@theorem(
    "ADMIT-1", "With full attention, if the whole prompt fits, so does every chunk of it while nothing else changes."
)
def a_prompt_that_fits_is_never_refused_a_chunk(s: Scope) -> None:
    num_tokens, computed, new = s.integer("num_tokens", 1), s.integer("computed"), s.integer("new")
    block_size, present, idle = s.integer("block_size", 1), s.integer("present"), s.integer("idle")
    watermark, free, longest = s.integer("watermark"), s.integer("free"), s.integer("max_model_len", 1)
    s.assume(computed + new <= num_tokens)
    s.assume(computed + new <= longest)
    whole = arithmetic.ceil_div(arithmetic.imin(num_tokens, longest), block_size)
    s.assume(negated(arithmetic.is_short(arithmetic.blocks_missing(whole, 0, present) + idle, watermark, free, 0)))
    chunk = arithmetic.ceil_div(arithmetic.slots_needed(computed, new, 0, longest), block_size)
    s.prove(negated(arithmetic.is_short(arithmetic.blocks_missing(chunk, 0, present) + idle, watermark, free, 0)))


@theorem("ADMIT-1", "With full attention a prompt that stage 0 admits fits chunk by chunk if nothing else changes.")
def what_stage_0_admits_fits_chunk_by_chunk(s: Scope) -> None:
    prompt, longest, block_size = s.integer("prompt", 1), s.integer("max_model_len", 1), s.integer("block_size", 1)
    reached, present, idle = s.integer("reached"), s.integer("present"), s.integer("idle")
    watermark, free = s.integer("watermark"), s.integer("free")
    s.assume(reached <= prompt)
    whole = arithmetic.ceil_div(arithmetic.imin(prompt, longest), block_size)
    charged = arithmetic.blocks_missing(whole, 0, present) + idle
    s.assume(negated(arithmetic.is_short(charged, watermark, free, 0)))
    chunk = arithmetic.ceil_div(arithmetic.slots_needed(reached, 0, 0, longest), block_size)
    needed = arithmetic.blocks_missing(chunk, 0, present) + idle
    s.prove(negated(arithmetic.is_short(needed, watermark, free, 0)))


@theorem("ADMIT-1", "Lookahead and a reserve break that promise by no more than the blocks they add.")
def lookahead_and_reserve_cost_what_they_add(s: Scope) -> None:
    tokens, lookahead, block_size = s.integer("tokens"), s.integer("lookahead"), s.integer("block_size", 1)
    present, longest = s.integer("present"), s.integer("max_model_len", 1)
    plain = arithmetic.ceil_div(arithmetic.slots_needed(tokens, 0, 0, longest), block_size)
    ahead = arithmetic.ceil_div(arithmetic.slots_needed(tokens, 0, lookahead, longest), block_size)
    more = arithmetic.blocks_missing(ahead, 0, present) - arithmetic.blocks_missing(plain, 0, present)
    s.prove(more >= 0)
    s.prove(more <= arithmetic.ceil_div(lookahead, block_size))


@theorem("ADMIT-1", "Stage 0 charges a window less than a chunk needs exactly if that reaches past the cap.")
def a_window_is_charged_too_little_exactly_past_its_cap(s: Scope) -> None:
    whole, cap, chunk = s.integer("whole"), s.integer("cap"), s.integer("chunk")
    skipped, present = s.integer("skipped"), s.integer("present")
    s.assume(chunk <= whole)
    charged = arithmetic.blocks_missing(arithmetic.imin(whole, cap), skipped, present)
    needed = arithmetic.blocks_missing(chunk, skipped, present)
    s.prove((charged < needed) == ((chunk > cap) & (chunk > skipped) & (chunk > present)))


@theorem("COUNT-1", "Adding idle hits inside the clamp gives the same count exactly if nothing is present too many.")
def the_seeds_count_is_the_clamped_one_exactly_when_the_table_is_not_ahead(s: Scope) -> None:
    required, present, idle = s.integer("required"), s.integer("present"), s.integer("idle")
    inside = arithmetic.imax(required - present + idle, 0)
    outside = arithmetic.blocks_missing(required, 0, present) + idle
    s.prove((inside == outside) == ((required >= present) | (idle == 0)))
