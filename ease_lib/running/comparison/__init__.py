"""The cells of a comparison, and the processes that run them side by side."""
