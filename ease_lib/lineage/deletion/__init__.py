"""Removal of a row on request: where it is, what is left, and the tombstones that say so."""
