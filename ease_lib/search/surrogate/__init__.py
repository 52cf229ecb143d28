"""Models that predict the score of an untried sequence, and their uncertainty."""
