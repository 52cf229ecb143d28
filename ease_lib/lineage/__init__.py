"""Origin of a prompt: records of every stage, and the answers an auditor needs."""
