"""Billiard Ball (Sec. 6.1)."""
