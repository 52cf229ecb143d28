"""Texts to vectors, here or behind an endpoint, kept from run to run."""
