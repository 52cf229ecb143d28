"""The parameters: `sections` declares them, `parsing` reads and writes them, `forms` are those of the dashboard."""
