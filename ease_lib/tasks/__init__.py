"""From files and generators to exemplar pool, validation set and test set."""
