"""Worlds: simulated search problems, each of which says how good every prompt truly is."""
