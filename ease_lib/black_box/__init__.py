"""The LLM behind its API: a wire, the layers around it, one identity of what is asked."""
