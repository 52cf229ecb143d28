"""`simulated`: an in-context learner behind the OpenAI routes, for studies and tests; the images do not hold it."""
