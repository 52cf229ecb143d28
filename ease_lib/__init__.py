"""EASE Pipelines: one ordered sequence of exemplars that works for every query of a task (Wu et al., NeurIPS 2024)."""

__version__ = "0.1.0"
