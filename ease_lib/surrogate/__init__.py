"""The surrogate: a small network that predicts validation scores, and the acquisition that uses its uncertainty."""
