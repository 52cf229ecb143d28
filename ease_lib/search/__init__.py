"""Alg. 1: loop, journal, budget, outcome; below it candidates, surrogate and optimizers."""
