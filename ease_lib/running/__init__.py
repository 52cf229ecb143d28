"""How stages run: as a task of a pipeline, in one process, in a comparison; and what a run has before and around it."""
