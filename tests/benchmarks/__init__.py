"""Measurements behind the figures of the README. Each is a command; none is a test."""
