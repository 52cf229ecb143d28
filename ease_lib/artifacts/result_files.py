"""Names of the files that the stage `report` collects for people and programs."""

PROMPT_TEXT, MESSAGES, REQUEST = "prompt.txt", "messages.json", "request.json"
EXEMPLARS = "exemplars.json"
"""Replaces messages and request in a run that searched for a program (`evaluate`)."""
HARMFUL, MISLABELLED = "harmful_exemplars.json", "mislabelled_exemplars.json"
BEST_SEQUENCE, HISTORY, REPORT, PAGE = "best_sequence.json", "history.parquet", "report.json", "report.html"
PROMPT_FILES = (PROMPT_TEXT, MESSAGES, REQUEST, EXEMPLARS)
RESULT_FILES = (PROMPT_TEXT, MESSAGES, REQUEST, HARMFUL, MISLABELLED, BEST_SEQUENCE, HISTORY, REPORT, PAGE)
