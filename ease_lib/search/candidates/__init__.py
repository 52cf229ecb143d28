"""Candidate sequences: how they are sampled and shortlisted."""
