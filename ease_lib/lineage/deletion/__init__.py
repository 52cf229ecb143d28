"""Removal of a row on request: search, deletion, and the tombstones that record it."""
