"""Tasks: where exemplars, validation and test rows come from, and how labels are corrupted or renamed on purpose."""
