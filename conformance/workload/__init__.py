"""Recorded request traces, and what a prefix cache makes of them."""
