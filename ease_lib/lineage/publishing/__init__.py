"""Published prompts: versions that never change, and the gate before the latest."""
