"""Build exemplar pool, validation set and test set from files and generators."""
