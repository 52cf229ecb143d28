"""A study: one search, its budget, its history and its journal."""
