"""Measurements behind the figures of README.md here. Each is a command; none is a test."""
