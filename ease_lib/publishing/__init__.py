"""Published prompts: versions that never change, the gate before the latest, and which of them hold a row."""
