"""The shipped record of who notices which mutant speaks of the mutants, theorems and laws that there are."""

from slotproof.proofs.kills import killed_by, killed_only_by, recorded, recorded_killers
from slotproof.proofs.mutants import specification_mutants
from slotproof.proofs.prove import stated_theorems
from slotproof.spec.laws import LAWS

MUTANTS = {mutant.id for mutant in specification_mutants()}


def test_it_speaks_of_the_mutants_that_there_are() -> None:
    assert recorded()["mutants"] == len(MUTANTS)
    for kind in ("killers", "only"):
        assert {name for names in recorded()[kind].values() for name in names} <= MUTANTS


def test_it_names_theorems_and_laws_that_there_are() -> None:
    assert set(recorded()["killers"]) - {"run-time laws", "crash"} <= {stated.name for stated in stated_theorems()}
    assert set(recorded()["only"]) <= {law.id for law in LAWS}


def test_who_kills_nothing_has_an_empty_list() -> None:
    assert killed_by("no theorem") == killed_only_by("NO-1") == []
    assert "arithmetic.is_short:1 compare" in recorded_killers()


def test_all_who_notice_a_mutant_are_known() -> None:
    several = "arithmetic.imin:2 return"
    killers = {killer for killer, names in recorded()["killers"].items() if several in names}
    assert recorded_killers()[several] == killers
    assert len(killers) > 1


def test_laws_that_no_fault_of_an_allocator_shows_alone_have_a_mutant_that_nobody_else_notices() -> None:
    """The others are in conformance/tests/test_no_dead_law.py."""
    assert all(killed_only_by(law) for law in ("REFUSE-3", "LEAK-1", "ISO-1"))
