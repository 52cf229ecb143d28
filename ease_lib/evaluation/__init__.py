"""Answers to scores: metrics, judge, objective, usage, statistics."""
