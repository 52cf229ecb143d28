"""Removal of a row on request: where it stands, what is left, and the tombstones that say so."""
