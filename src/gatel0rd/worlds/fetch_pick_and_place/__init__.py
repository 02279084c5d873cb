"""Fetch Pick&Place (Sec. 6.5)."""
