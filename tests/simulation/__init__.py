"""LLMs that are functions, for studies and tests of thousands of evaluations; see `models.py`."""
