"""Candidate sequences: sampling and shortlisting."""
