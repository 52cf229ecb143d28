"""Where a prompt came from: records of every stage, and what an auditor asks of them."""
