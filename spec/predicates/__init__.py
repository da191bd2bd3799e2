"""The laws' predicates: each takes a transition and returns its objection, or None where the law holds.

They restate what must be true in their own arithmetic, so that a slip in the specification's own functions does not
pass unnoticed.
"""
