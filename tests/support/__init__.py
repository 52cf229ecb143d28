"""Shared test code: an endpoint that fails on demand, objectives, and the conformance suite of optimizers."""
