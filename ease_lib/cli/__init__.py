"""The command `ease`."""
