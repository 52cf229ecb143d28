"""Published prompts: versions that never change, and the gate that decides which is the latest."""
