"""Pages, texts and charts for people."""
