"""Theorems about `spec/keys.py`: two blocks have one key only if they hold one prefix for one group."""

from slotproof.proofs.scope import Scope
from slotproof.proofs.theorem import theorem
from slotproof.spec import keys
from slotproof.spec.pool import NO_KEY


@theorem("INDEX-1", "Blocks of different groups or different prefixes never have the same key.")
def a_key_stands_for_one_prefix_of_one_group(s: Scope) -> None:
    groups = s.integer("groups", 1)
    one, other = s.integer("prefix"), s.integer("other_prefix")
    group, other_group = s.integer("group"), s.integer("other_group")
    s.assume((group < groups) & (other_group < groups))
    s.assume(keys.block_key(one, group, groups) == keys.block_key(other, other_group, groups))
    s.prove((one == other) & (group == other_group))


@theorem("INDEX-1", "No block's key is mistaken for the sign of having none.")
def no_key_is_the_sign_of_none(s: Scope) -> None:
    prefix, group, groups = s.integer("prefix"), s.integer("group"), s.integer("groups", 1)
    s.assume(group < groups)
    s.prove(keys.block_key(prefix, group, groups) != NO_KEY)
