"""What the stage `report` collects for people and programs, by the names of its files."""

PROMPT_TEXT, MESSAGES, REQUEST = "prompt.txt", "messages.json", "request.json"
HARMFUL, BEST_SEQUENCE, HISTORY, REPORT, PAGE = (
    *("harmful_exemplars.json", "best_sequence.json", "history.parquet"),
    *("report.json", "report.html"),
)
PROMPT_FILES = (PROMPT_TEXT, MESSAGES, REQUEST)
RESULT_FILES = (*PROMPT_FILES, HARMFUL, BEST_SEQUENCE, HISTORY, REPORT, PAGE)
