"""Shepherd (Sec. 6.3)."""
