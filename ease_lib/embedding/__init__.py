"""Sentence embeddings h: models on this machine, models behind an endpoint, and vectors kept from run to run."""
