"""What predicts the score of a sequence that nobody has tried, and how sure that is."""
