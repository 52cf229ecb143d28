"""The black-box LLM behind its API: asked once, retried, bounded, metered, cached; `opening` puts it together."""
