"""The endpoint that a run can start for itself: a small real LLM (`local`).

It is a child process with the OpenAI routes on a free loopback port. It ends when its standard input closes, so it
cannot outlive the process that started it, not even one that was killed.
"""
