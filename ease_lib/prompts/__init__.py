"""Conversion of rows to prompts: template, messages, baseline, instructions."""
