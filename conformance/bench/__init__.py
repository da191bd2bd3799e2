"""Timing: our allocator and a peer side by side in one process, each called as its engine calls it."""
