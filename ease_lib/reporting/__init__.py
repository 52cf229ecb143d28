"""What people see of a run: numbers with their uncertainty, and one self-contained page."""
