"""What a sequence is worth: its prompts, the metrics that score their answers, the mean over a set of rows."""
