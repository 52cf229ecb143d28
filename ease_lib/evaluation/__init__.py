"""Ask the black-box and score its answers."""
