"""The LLM behind its API: the connection, the layers around it, and the identity of requests."""
