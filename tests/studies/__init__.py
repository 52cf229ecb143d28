"""Offline studies: `python -m tests.studies` says what makes sequences of a task differ, and what answers teach."""
